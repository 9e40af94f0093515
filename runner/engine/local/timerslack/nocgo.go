//go:build !cgo

package timerslack

func original() uint64 { return 0 }
