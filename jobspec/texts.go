package jobspec

type texts struct{}
