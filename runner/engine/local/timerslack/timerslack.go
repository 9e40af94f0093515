// Package timerslack lets the timers of this process come late by some
// milliseconds. Go's monitor thread sleeps for 20 microseconds at a time whenever
// anything happens; beside runner and keeper of short jobs it takes every tenth
// microsecond of a core. It was there before main, so that only a constructor
// comes before it, and without cgo all stays as it was.
package timerslack

import "golang.org/x/sys/unix"

// Original is the slack that this process was started with, in nanoseconds, for
// the programs that it starts; 0 where it was not changed. See PR_SET_TIMERSLACK
// in prctl(2).
func Original() uint64 { return original() }

// Restore gives the calling thread, and so the programs that it starts, the slack
// that this process was started with.
func Restore() {
	if n := Original(); n > 0 {
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(n), 0, 0, 0) // cannot fail
	}
}
