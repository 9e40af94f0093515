package cli

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"gpurun/runner"
	"gpurun/state"
	"gpurun/state/disk"
)

// A run with --watch reads its job files again when they change. It looks at them once a
// second: on a network file system nobody tells of changes.
const lookAtFiles = time.Second

// fileWatch tells when job files have changed.
type fileWatch struct {
	paths []string
	again chan<- struct{}
	say   func(string)
	known []appearance // how the files were when they were last read
	idle  bool         // that all is done has been said
}

// An appearance tells two versions of a file apart.
type appearance struct {
	dev, ino uint64
	size     int64
	mtime    time.Time
}

// look returns how the files are; one that is missing is as good as another.
func (w *fileWatch) look() []appearance {
	all := make([]appearance, len(w.paths))
	for i, path := range w.paths {
		if fi, err := os.Stat(path); err == nil {
			st := fi.Sys().(*syscall.Stat_t)
			all[i] = appearance{st.Dev, st.Ino, fi.Size(), fi.ModTime()}
		}
	}
	return all
}

// run goes on until done is closed. A file that is still being written changes again: it is
// read once it has stayed the same for one look.
func (w *fileWatch) run(done <-chan struct{}) {
	before := w.known
	for {
		select {
		case <-done:
			return
		case <-time.After(lookAtFiles):
		}
		now := w.look()
		if !slices.Equal(now, w.known) && slices.Equal(now, before) {
			w.known = now
			select {
			case w.again <- struct{}{}:
			default: // it will be done
			}
		}
		before = now
	}
}

// Fact does nothing.
func (w *fileWatch) Fact(int, state.Fact) {}

// Warn does nothing.
func (w *fileWatch) Warn(string) {}

// Snapshot says once that all is done, and what happens next.
func (w *fileWatch) Snapshot(s state.Snapshot) {
	if s.Watching && !w.idle {
		w.say("all done; waiting for changes of " + strings.Join(names(len(w.paths), func(i int) string { return shown(w.paths[i]) }), ", ") + " (gpurun stop --drain ends it)")
	}
	w.idle = s.Watching
}

// watchFiles begins to watch the job files, before they are read. Those in which others have
// a say are refused: they would start what they like in this user's name.
func (r *run) watchFiles(paths []string) error {
	if !r.cmd.Watch {
		return nil
	}
	if err := onlyOurs(paths); err != nil {
		return &failure{code: exitUsage, text: err.Error(), hint: "nothing was started; without --watch the file is read once, as you see it now", err: err}
	}
	w := &fileWatch{paths: paths}
	w.known = w.look()
	r.files = w
	return nil
}

func onlyOurs(paths []string) error {
	for _, path := range paths {
		if err := disk.OnlyOurs(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return &runner.Mistake{Text: "--watch runs whatever a file comes to say: " + err.Error()}
		}
	}
	return nil
}

// sinks adds to the sinks of a run those that its flags ask for, and begins to watch its files.
func (r *run) sinks(sinks []runner.Sink, sig *signals, say func(string)) []runner.Sink {
	if r.detached != nil {
		sinks = append(sinks, r.detached)
	}
	if w := r.files; w != nil {
		done := make(chan struct{})
		r.later(func() { close(done) })
		w.again, w.say = sig.again, say
		r.goSafely(func() { w.run(done) })
		sinks = append(sinks, w)
	}
	return sinks
}
