//go:build linux && cgo

package probe

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"gpurun/state/host"
)

// childMemory bounds the child's memory. Otherwise, a driver that always reports more processes
// than fit in the buffer would exhaust the host's memory.
const childMemory = 1 << 30

// ChildMain runs the child process; args are the arguments after __probe. It answers questions from
// stdin until EOF and returns the exit status.
//
// A separate goroutine calls the driver and may hang forever. EOF on stdin ends the process anyway.
func ChildMain(args []string) int {
	flags := flag.NewFlagSet("gpurun "+childArg, flag.ContinueOnError)
	library := flags.String("library", "", "path of the NVML library")
	lists := flags.Bool("lists", true, "read process lists")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	host.CloseInherited() // a child that hangs in the driver would keep these descriptors open
	limit := unix.Rlimit{Cur: childMemory, Max: childMemory}
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &limit); err != nil {
		fmt.Fprintln(os.Stderr, "memory limit:", err)
	}
	out, err := ownStdout()
	if err != nil {
		fmt.Fprintln(os.Stderr, "stdout:", err)
		return 1
	}
	questions, over := make(chan question, 1), make(chan int, 2)
	go func() {
		over <- listen(questions)
	}()
	go func() {
		over <- work(*library, *lists, questions, json.NewEncoder(out))
	}()
	return <-over
}

// ownStdout reserves stdout for answers, and redirects output of the library to stderr.
func ownStdout() (*os.File, error) {
	fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err == nil {
		err = unix.Dup3(2, 1, 0)
	}
	return os.NewFile(uintptr(fd), "answers"), err
}

// listen forwards questions until EOF. While the driver hangs, each question replaces the previous
// one, which the parent has abandoned.
func listen(questions chan question) int {
	for in := json.NewDecoder(os.Stdin); ; {
		var q question
		if err := in.Decode(&q); err != nil {
			return 0
		}
		select {
		case <-questions:
		default:
		}
		questions <- q
	}
}

// work opens NVML, sends the hello, and answers questions until the driver is gone.
func work(library string, lists bool, questions <-chan question, out *json.Encoder) int {
	s, h := openSession(library, lists)
	if err := out.Encode(answer{Hello: &h}); err != nil || h.Missing != nil {
		return 1
	}
	for q := range questions {
		a := s.answer(q)
		if err := out.Encode(a); err != nil || a.Gone != "" {
			return 1
		}
	}
	return 0
}
