package cli

import (
	"crypto/rand"
	"strings"
	"sync"

	"github.com/rs/zerolog"

	"gpurun/runner/engine"
	"gpurun/runner/engine/local"
)

// engines are the kinds of engines by name.
var engines = map[string]engine.Kind{"local": local.Kind{}}

// engine returns the kind of engine that runs the attempts.
func (a *app) engine() engine.Kind { return engines["local"] }

// openEngine opens the engine of a batch folder; of none for claims alone.
func (a *app) openEngine(dir string, log zerolog.Logger, claims []string) (engine.Opened, error) {
	return a.engine().Open(engine.Config{Dir: dir, Log: log, Claims: claims, Run: runID(), Go: a.goSafely})
}

// runID returns what this run is called among all on the host.
var runID = sync.OnceValue(func() string { return strings.ToLower(rand.Text()[:16]) })
