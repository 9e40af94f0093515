package schema

// A View is a batch at one moment. Nobody changes it.
type View struct {
	Status Status // without Jobs
	Jobs   []*Job // a job in which nothing has changed is the one of the View before

	Secrets []string // that texts may have in them
}

// A LogPart is an attempt's part of a log file.
type LogPart struct {
	Path     string
	From, To int64 // To is -1 for the end of the file
	Over     bool  // the attempt has ended
}
