package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"syscall"
)

// bare runs a loop that starts shells and waits for them, and keeps no record of
// any. No runner of jobs is faster: beside it one sees what a bar leaves for
// records.
func bare(dir string, n int) (cost, error) {
	self, err := os.Executable()
	if err != nil {
		return cost{}, err
	}
	return command{dir: dir, argv: []string{self, bareCommand, strconv.Itoa(n)}}.measure()
}

const bareCommand = "__bare"

// spawnMain is that process; its result is the exit status.
func spawnMain(count string, said io.Writer) int {
	n, err := strconv.Atoi(count)
	if err == nil {
		err = spawn(n, ":")
	}
	if err != nil {
		fmt.Fprintln(said, "bench:", err)
		return 1
	}
	return 0
}

// spawn starts n shells, two at a time, in this process, which has no other children.
func spawn(n int, script string) error {
	runtime.GOMAXPROCS(1) // the fastest here: nothing is done beside the loop
	attr := &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}}
	for started, ended := 0, 0; ended < n; {
		if started < n && started-ended < 2 {
			if _, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", script}, attr); err != nil {
				return err
			}
			started++
			continue
		}
		if err := reap(); err != nil {
			return err
		}
		ended++
	}
	return nil
}

// reap waits for one shell to succeed.
func reap() error {
	var status syscall.WaitStatus
	_, err := syscall.Wait4(-1, &status, 0, nil)
	for err == syscall.EINTR {
		_, err = syscall.Wait4(-1, &status, 0, nil)
	}
	if err == nil && status != 0 {
		err = fmt.Errorf("a shell ended with wait status %#x", status)
	}
	return err
}
