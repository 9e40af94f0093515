package web

import (
	"bytes"
	"fmt"
	"gpurun/state"
	"net/http"
	"slices"
	"strings"
)

// A figure is one series in Prometheus' text format.
type figure struct {
	labels string
	value  float64
}

// metrics answers Prometheus. To limit the number of series, the metrics describe GPUs and batches,
// but not single jobs.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) error {
	if err := s.allowed(s.right(r), Read); err != nil {
		return err
	}
	var b bytes.Buffer
	put := func(name, help string, list []figure) {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name)
		for _, f := range list {
			fmt.Fprintf(&b, "%s{%s} %g\n", name, f.labels, f.value)
		}
	}
	put("gpurun_info", "The version of gpurun.", []figure{{label("version", s.Version), 1}})
	if d, err := s.host.read(r.Context()); err == nil {
		var total, used, util, fits []figure
		for i := range d.GPUs {
			g := &d.GPUs[i]
			l := label("gpu", fmt.Sprint(g.Index)) + "," + label("uuid", string(g.UUID)) + "," + label("name", g.Name)
			add(&total, l, g.Total, 1)
			add(&used, l, g.Used, 1)
			add(&util, l, g.Util, 0.01)
			for _, c := range g.Claims {
				if c.User != nil {
					fits = append(fits, figure{l + "," + label("user", *c.User), 1})
				}
			}
		}
		slices.SortFunc(fits, func(a, b figure) int { return strings.Compare(a.labels, b.labels) })
		put("gpurun_gpu_memory_bytes", "Memory of a GPU.", total)
		put("gpurun_gpu_memory_used_bytes", "Memory in use.", used)
		put("gpurun_gpu_utilization_ratio", "Utilization, from 0 to 1.", util)
		put("gpurun_gpu_claimed", "GPUs that a user's runs hold.", slices.CompactFunc(fits, func(a, b figure) bool { return a.labels == b.labels }))
		put("gpurun_runs_waiting", "Runs of all users that are waiting for GPUs.", []figure{{"", float64(len(d.Waiting))}})
	}
	var alive, jobs []figure
	for _, row := range s.rows() {
		l := label("batch", row.ID) + "," + label("file", row.Files[0].Path)
		is := 0.0
		if row.Run != nil && row.Run.Alive {
			is = 1
		}
		alive = append(alive, figure{l, is})
		for _, p := range state.Phases {
			if n, known := row.Counts[p]; known {
				jobs = append(jobs, figure{l + "," + label("state", string(p)), float64(n)})
			}
		}
	}
	put("gpurun_run_alive", "Whether a batch is running.", alive)
	put("gpurun_jobs", "Jobs of a batch by state.", jobs)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(b.Bytes()) // the client may have disconnected
	return nil
}

func add[T ~int | ~int64](to *[]figure, labels string, value *T, unit float64) {
	if value != nil {
		*to = append(*to, figure{labels, float64(*value) * unit})
	}
}

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func label(name, value string) string {
	return name + `="` + escapes.Replace(strings.ToValidUTF8(value, "�")) + `"`
}
