//go:build !cgo

package timeslice

func original() uint64 { return 0 }
