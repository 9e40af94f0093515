package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpurun/gpu/claim"
	"gpurun/runner/batches"
	"gpurun/runner/session"
	"gpurun/runner/terminal"
	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/host"
	"gpurun/state/schema"
)

type usageCmd struct {
	Path  string `arg:"" optional:"" name:"file" help:"Break down the GPU time of this job file (default: show hours by user and batch)."`
	Sim   string `env:"GPURUN_SIM" placeholder:"SPEC" help:"Show usage of the GPUs that this YAML file simulates."`
	Month bool   `help:"Show the last 30 days instead of 7."`
	JSON  bool   `name:"json" help:"Print JSON."`
}

func (usageCmd) Help() string {
	return helpText("Hours by user exclude --background runs and programs started without gpurun.",
		"gpurun usage",
		"gpurun usage jobs.yaml",
		"gpurun usage --month --json")
}

func (c *usageCmd) Run(a *app) error {
	ctx, stop := a.UntilSignal()
	defer stop()
	if c.Path != "" {
		return c.batch(a)
	}
	days := 7
	if c.Month {
		days = 30
	}
	rep, err := c.report(ctx, a, days)
	if err != nil {
		return err
	}
	for _, b := range disk.Batches(".", a.StateDir) {
		c.addBatch(rep, batches.Shown(b.File), disk.Folder(b.File, a.StateDir))
	}
	if c.JSON {
		return writeJSON(a.out, rep)
	}
	printUsage(a, rep)
	return nil
}

// batch prints how the GPU time of a batch was used.
func (c *usageCmd) batch(a *app) error {
	if c.Month {
		return &batches.Failure{Code: batches.ExitUsage, Text: "--month works for all batches, not for one file"}
	}
	refs, err := a.FindJobs(c.Path, nil, "")
	if err != nil {
		return err
	}
	u := refs[0].RunLog().Usage(refs[0].Readings(), time.Now())
	if c.JSON {
		return writeJSON(a.out, u)
	}
	cells := [][]string{{"GPU TIME OF " + terminal.CleanText(refs[0].Name()), "GPU HOURS", "SHARE"}}
	for _, x := range u.Parts {
		cells = append(cells, []string{strings.TrimSuffix(strings.ReplaceAll(string(x.Kind), "_", " ")+": "+x.Code.Words()+onGPU(x.User), ": "), hourWords(x.Seconds), fmt.Sprintf("%.0f%%", 100*x.Seconds/u.Time)})
	}
	table(a.out, append(cells, []string{"all", hourWords(u.Time), "100%"}))
	printLines(a.out, append(u.Unknown, u.Advice...))
	return nil
}

// report adds up the GPU hours of all users in the last days.
func (c *usageCmd) report(ctx context.Context, a *app, days int) (*schema.Usage, error) {
	rep := &schema.Usage{Head: schema.At(time.Now()), Users: []schema.UserHours{}, Batches: []schema.BatchHours{}}
	rep.Since = time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1-days)
	reader := claim.NewReader(session.ClaimRoots(nil, "")).Of(nil)
	if c.Sim != "" {
		p, err := session.OpenSim(c.Sim)
		if err != nil {
			return nil, err
		}
		reader = claim.NewReader(session.ClaimRoots(p, "")).Of(p.Devices())
	}
	_, warnings := reader.Others(ctx)
	a.Warn(warnings...)
	addUp(rep, reader.Usages(), days)
	return rep, context.Cause(ctx)
}

// addUp adds up the GPU hours of all users. For each user, it takes the larger of two figures: that
// in the user's own record, and that in this user's record about them.
func addUp(r *schema.Usage, records []claim.Usage, days int) {
	me := host.CurrentUID()
	of := func(uid int) *schema.UserHours {
		i := slices.IndexFunc(r.Users, func(u schema.UserHours) bool { return u.UID == uid })
		if i < 0 {
			i = len(r.Users)
			r.Users = append(r.Users, schema.UserHours{User: cmp.Or(host.UserName(uid), "uid "+strconv.Itoa(uid)), UID: uid, You: uid == me})
		}
		return &r.Users[i]
	}
	for _, rec := range records {
		for _, x := range rec.Users {
			all := 0.0
			for _, seconds := range x.Days[:min(len(x.Days), days)] {
				all += seconds
			}
			switch {
			case x.UID == rec.UID:
				of(x.UID).Stated = all
			case rec.UID == me:
				of(x.UID).Seen = all
			}
		}
	}
	for i := range r.Users {
		r.Users[i].Time = max(r.Users[i].Stated, r.Users[i].Seen)
	}
	r.Users = slices.DeleteFunc(r.Users, func(u schema.UserHours) bool { return u.Time == 0 })
	slices.SortFunc(r.Users, func(a, b schema.UserHours) int { return cmp.Or(cmp.Compare(b.Time, a.Time), a.UID-b.UID) })
}

// addBatch adds the GPU hours of a batch's attempts that ended in the time span of the report.
func (c *usageCmd) addBatch(rep *schema.Usage, file, dir string) {
	h, sim := schema.BatchHours{File: file}, c.Sim != ""
	starts, held := map[string]state.Fact{}, state.GPUTime{}
	disk.FromStart(dir).Next(func(_ int64, f state.Fact) {
		switch f.Kind {
		case state.KindStart:
			if f.Engine != "" && !sim || len(f.GPUUUIDs) > 0 && f.GPUUUIDs[0].Simulated() == sim {
				starts[f.UniID] = state.Fact{Time: f.Time, GPUUUIDs: f.GPUUUIDs}
			}
		case state.KindEnd:
			start, known := starts[f.UniID]
			delete(starts, f.UniID)
			if known && f.Time.After(rep.Since) && len(start.GPUUUIDs)+len(f.GPUs) > 0 {
				h.Attempts++
				held.AddAttempt(&start, &f)
			}
		}
	})
	if h.Time = held.Since(rep.Since).Seconds(); h.Attempts > 0 {
		rep.Batches = append(rep.Batches, h)
	}
}

// printUsage prints the tables.
func printUsage(a *app, r *schema.Usage) {
	since := "since " + r.Since.Format("2 January (UTC)")
	total := 0.0
	for _, u := range r.Users {
		total += u.Time
	}
	cells := [][]string{{"USER", "GPU HOURS", "SHARE"}}
	for _, u := range r.Users {
		who := onGPU(u.User)
		if u.You {
			who += " (you)"
		}
		cells = append(cells, []string{who, hourWords(u.Time), fmt.Sprintf("%.0f%%", 100*u.Time/total)})
	}
	if len(r.Users) == 0 {
		fmt.Fprintln(a.out, "no run has used a GPU "+since)
	} else {
		fmt.Fprintln(a.out, "GPU hours "+since)
		table(a.out, cells)
	}
	if len(r.Batches) == 0 {
		return
	}
	cells = [][]string{{"BATCH", "GPU HOURS", "ATTEMPTS"}}
	for _, b := range r.Batches {
		cells = append(cells, []string{terminal.CleanText(b.File), hourWords(b.Time), strconv.Itoa(b.Attempts)})
	}
	fmt.Fprintln(a.out)
	table(a.out, cells)
}

// hourWords formats seconds as hours, with two decimals for small values.
func hourWords(seconds float64) string {
	h := seconds / 3600
	if h < 10 {
		return strconv.FormatFloat(h, 'f', 2, 64)
	}
	return strconv.FormatFloat(h, 'f', 0, 64)
}
