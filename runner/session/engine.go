// Package session runs a batch, or one command, from what its flags say to its exit.
package session

import (
	"crypto/rand"
	"os"
	"strings"
	"sync"

	"github.com/rs/zerolog"

	"gpurun/runner/batches"
	"gpurun/runner/engine"
	"gpurun/state/disk"
)

// OpenEngine opens the engine of a batch folder; of none for claims alone.
func OpenEngine(kind engine.Kind, dir string, log zerolog.Logger, claims []string, c engine.Cluster, start func(func())) (engine.Opened, error) {
	return kind.Open(engine.Config{Bound: batches.Allocation().ID != "", Dir: dir, Log: log, Claims: claims, Run: RunID(), Go: start, Cluster: c})
}

// LockOf opens what this user's runs and commands lock while they submit to a cluster.
func LockOf(engine string) (*os.File, error) {
	f, err := disk.OpenLock(engine)
	if err != nil {
		err = &batches.Failure{Code: batches.ExitState, Text: "cannot lock out your other runs: " + err.Error(), Err: err, Hint: "set HOME, or XDG_STATE_HOME, to a folder of your own that all login nodes share"}
	}
	return f, err
}

// RunID returns what this run is called among all on the host.
var RunID = sync.OnceValue(func() string { return strings.ToLower(rand.Text()[:16]) })
