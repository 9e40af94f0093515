package web

import (
	"net/http"
	"reflect"
	"slices"

	"gpurun/state/schema"
)

// Requests that change a batch, one for each verb of the command line.
type (
	// OnJobs selects jobs by names or globs. File limits the selection to one of the batch's job
	// files, because several files may have a job of the same name.
	OnJobs struct {
		Jobs []string `json:"jobs"`
		File string   `json:"file"`
	}
	// Stop stops the given jobs, frees a GPU, or drains the run. Without any of these, it stops the
	// whole run.
	Stop struct {
		OnJobs
		GPU   *int `json:"gpu"`
		Drain bool `json:"drain"`
	}
	// Retry restarts failed jobs.
	Retry struct{ OnJobs }
	// Pause keeps the given jobs, or all jobs if none are given, from starting.
	Pause struct{ OnJobs }
	// Resume undoes Pause and, if no jobs are given, a drain.
	Resume struct{ OnJobs }
	// Forget makes gpurun ignore the last success of jobs.
	Forget struct{ OnJobs }
	// Done records jobs as done.
	Done struct {
		OnJobs
		WithoutOutputs bool `json:"without_outputs"`
	}
	// Set changes settings of the run, or keys of the given jobs.
	Set struct {
		OnJobs
		Set map[string]string `json:"set"`
	}
	// Reload makes the run read its files again.
	Reload struct{}
	// Add appends a job to the job file.
	Add struct {
		Command []string `json:"command"`
	}
	// Start starts a run of job files. Options are command-line options from StartOptions. Without
	// Yes, a run that would rerun expensive successes is refused.
	Start struct {
		Files   []string            `json:"files"`
		Options map[string][]string `json:"options"`
		Yes     bool                `json:"yes"`
	}
)

// StartOptions are the options of gpurun run that clients may set. None of them names a library, a
// program, a folder or a file.
var StartOptions = []string{
	"only", "skip", "tag", "force", "param", "max-concurrent", "min-memory", "max-util", "max-wait", "gpu-ids", "reserve", "min-gpus", "max-gpus",
	"hours", "background", "share", "slots", "others", "pick", "order", "shuffle-seed", "patience", "fail-fast", "breaker", "learn",
}

// verbs returns the operations that change something.
func verbs() []operation {
	verb := func(name, says string, right Right, body any) operation {
		return operation{method: http.MethodPost, path: "/batches/{batch}/" + name, says: says, right: right, body: body, answer: schema.Answer{}, json: (*call).do}
	}
	return []operation{
		verb("stop", "Stop jobs or the whole run, free a GPU, or start no more jobs (drain).", Control, Stop{}),
		verb("retry", "Restart failed jobs now.", Control, Retry{}),
		verb("pause", "Pause some jobs, or the whole run.", Control, Pause{}),
		verb("resume", "Resume paused jobs or the whole run; without jobs, also undo a drain.", Control, Resume{}),
		verb("forget", "Make finished jobs run again next time.", Control, Forget{}),
		verb("done", "Record jobs as done without running them.", Control, Done{}),
		verb("set", "Change settings of the run or, with jobs, their resources and queue position: gpurun set --help lists the keys.", Control, Set{}),
		verb("reload", "Make the run reread its job files.", Control, Reload{}),
		verb("add", "Append a job to the job file, and to its live run.", Run, Add{}),
		{method: http.MethodPost, path: "/runs", says: "Start job files below a root, in the background.", right: Run, body: Start{}, answer: schema.Answer{}, json: (*call).do},
	}
}

func (c *call) do() (any, error) {
	body := reflect.New(reflect.TypeOf(c.op.body))
	if err := c.input(body.Interface()); err != nil {
		return nil, err
	}
	var on OnJobs
	if f := body.Elem().FieldByName("OnJobs"); f.IsValid() {
		on = f.Interface().(OnJobs)
	}
	switch {
	case on.Jobs != nil && len(on.Jobs) == 0: // a script that found no job must not stop the run
		return nil, badRequest("jobs: the list is empty", "name a job; without jobs, stop, pause and resume act on the whole run")
	case on.Jobs == nil && on.File != "": // a request for one file must not stop the jobs of the others
		return nil, badRequest("file: works only with jobs", "name jobs, or use a glob")
	}
	var said []string
	var err error
	request := body.Elem().Interface()
	if start, is := request.(Start); is {
		said, err = c.server.Source.Start(start)
	} else {
		var f *feed
		if f, err = c.server.feed(c.PathValue("batch")); err != nil {
			return nil, err
		}
		if err = f.hasFile(on.File); err == nil {
			said, err = f.batch.Do(on.File, request)
		}
	}
	if err != nil {
		return nil, err
	}
	return schema.Answer{Head: now(), Said: schema.List(said)}, nil
}

// hasFile returns an error unless file is one of the batch's job files or "".
func (f *feed) hasFile(file string) error {
	if file == "" {
		return nil
	}
	v, err := f.batch.Look()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(v.Status.Batch.Files, func(of schema.File) bool { return of.Path == file }) {
		return badRequest("file: not a job file of this batch", "use a path in batch.files")
	}
	return nil
}
