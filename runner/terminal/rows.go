package terminal

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gpurun/gpu"
	"gpurun/state/schema"
)

// A Row shows a GPU with the first of its jobs, another job on the same GPU, or a job that has no
// GPU on this host.
type Row struct {
	Cells [8]string
	color Color
}

// Columns of a row, from left to right.
const (
	colWhere = iota // GPU index, or where the job runs
	colBar
	colMemory // in GiB
	colUtil
	ColName // job or process
	ColEnd  // progress or state
	ColFits // in gpurun gpus: whether a job could use the GPU
	ColMore // remarks
)

func row(name, end, more string, c Color) Row {
	return Row{[8]string{ColName: CleanText(name), ColEnd: CleanText(end), ColMore: CleanText(more)}, c}
}

// OnGPU returns the rows of a GPU: the jobs that use it, other claims and processes, and why the
// GPU is not used.
func (f Frame) OnGPU(g *schema.GPU, jobs []*schema.Job) (on []Row) {
	for _, j := range jobs {
		if !j.Attempt.On(g) {
			continue
		}
		if on = append(on, f.Job(j)); j.Attempt.Stalled != nil { // a stalled job first, in case only one row fits
			on[0], on[len(on)-1] = on[len(on)-1], on[0]
		}
	}
	own := len(on)
	whose := func(user *string, what string) string {
		return FitMiddle(CleanText(cmp.Or(schema.Value(user), "?")+": "+cmp.Or(what, "?")), 36)
	}
	for _, c := range g.Claims {
		if c.UniID != nil && slices.ContainsFunc(jobs, func(j *schema.Job) bool { return schema.Value(j.Attempt.UniID) == *c.UniID }) {
			continue
		}
		p := row(whose(c.User, c.Job), "gathering", "", Dim)
		if c.Since != nil && !c.Gathering {
			p.Cells[ColEnd] = "since " + gpu.Clock(*c.Since, f.Now)
		}
		on = append(on, p)
	}
	for _, p := range g.Processes {
		if len(g.Jobs) == 0 && !slices.ContainsFunc(g.Claims, func(c schema.Claim) bool { return schema.Value(c.User) == schema.Value(p.User) }) {
			pid := fmt.Sprint("pid ", p.PID)
			if schema.Value(p.Idle) >= 1 {
				pid += ", idle " + Seconds(*p.Idle)
			}
			on = append(on, row(whose(p.User, schema.Value(p.Command)), pid, "", Dim))
		}
	}
	for _, q := range g.Quarantines {
		on = append(on, row(whose(q.User, "quarantined"), "until "+gpu.Clock(q.Until, f.Now), q.Text, Yellow))
	}
	if schema.Value(g.RowRemap) {
		on = append(on, row("memory row remap pending", "", "until the GPU is reset", Yellow))
	}
	if len(on) == 0 {
		word := "free"
		if g.Used == nil {
			word = "unused"
		} else if *g.Used > gpu.GiB { // by processes that gpurun cannot see
			word = "in use"
		}
		on = append(on, row(word, "", "", Dim))
	}
	why, more := schema.Value(g.Code), &on[0].Cells[ColMore]
	if g.Text != nil && why != gpu.Held && why != gpu.Claimed && (own == 0 || *more == "" || why == gpu.Quarantined) {
		*more = CleanText(*g.Text)
	}
	used, total, busy, full := "?", schema.Value(g.Total), "?", 0
	if g.Used != nil && total > 0 {
		used, full = gib(*g.Used), min(int(math.Ceil(barWidth*float64(*g.Used)/float64(total))), barWidth)
	}
	if g.Util != nil {
		busy = fmt.Sprintf("%d%%", *g.Util)
	}
	c := &on[0].Cells
	c[colWhere], c[colBar] = strconv.Itoa(g.Index), Paint(Green, strings.Repeat("█", full))+strings.Repeat("░", barWidth-full)
	c[colMemory], c[colUtil] = used+"/"+gib(total), busy
	return on
}

// barWidth is the width of a memory bar in columns.
const barWidth = 6

// gib returns a size in GiB.
func gib(b gpu.Bytes) string { return fmt.Sprintf("%.0f", float64(b)/float64(gpu.GiB)) }

// Layout draws rows in at most w columns and room lines. If there are too few columns, it drops bars,
// then utilizations, then memory, and then cuts names. If there are too few lines, it first reduces
// each GPU to one row.
func Layout(rows []Row, w, room int) []string {
	rest := ""
	if len(rows) > room {
		rows, rest = dropRows(rows, room)
	}
	var cols [8]int
	names := make([]string, len(rows))
	for i, p := range rows {
		for c, text := range p.Cells {
			cols[c] = max(cols[c], Width(text))
		}
		names[i] = p.Cells[ColName]
	}
	cols[colWhere] = min(cols[colWhere], w/2)
	free := func() int { // width left for names and remarks
		n := w - cols[ColEnd] - 4
		if cols[ColFits] > 0 {
			n -= cols[ColFits] + 2
		}
		for _, c := range cols[:ColName] {
			n -= min(c, 1) + c
		}
		return n
	}
	for _, c := range []int{colBar, colUtil, colMemory} {
		if free()+2 < min(cols[ColName], max(w/3, 16)) {
			cols[c] = 0
		}
	}
	if free()-w*2/5 >= 24 { // leave room for log lines too
		cols[ColName] = min(cols[ColName], w*2/5)
	}
	cols[ColName] = max(min(cols[ColName], free()+2), 4)
	if cols[ColMore] = free() - cols[ColName]; cols[ColMore] < 8 {
		cols[ColMore] = 0
	}
	lines := make([]string, 0, room)
	for i, name := range Distinct(names, cols[ColName]) {
		p, line := rows[i], ""
		p.Cells[ColName] = name
		for c, text := range p.Cells {
			if cols[c] == 0 {
				continue
			}
			if Width(text) > cols[c] {
				text = Fit(text, cols[c])
			}
			space := strings.Repeat(" ", cols[c]-Width(text))
			switch c {
			case colMemory, colUtil:
				text, space = space+text, ""
			case ColName, ColEnd, ColFits:
				text, space = Paint(p.color, text), space+" "
			case ColMore:
				text = Paint(Dim, text)
			}
			line += text + space + " "
		}
		if line = strings.TrimRight(line, " "); Width(line) > w {
			line = Fit(Plain(line), w)
		}
		lines = append(lines, line)
	}
	if rest != "" && len(lines) < room {
		lines = append(lines, Paint(Dim, Fit(rest, w)))
	}
	return lines
}

// dropRows drops rows until they fit into room, and describes the dropped ones.
func dropRows(rows []Row, room int) (list []Row, rest string) {
	also, gpus := 0, 0
	for i, p := range rows { // keep the first row of each GPU
		if also++; p.Cells[colWhere] != "" {
			list, also = append(list, p), 0
		} else if i+1 == len(rows) || rows[i+1].Cells[colWhere] != "" {
			list[len(list)-1].Cells[ColEnd] += fmt.Sprintf(" +%d", also)
		}
	}
	if len(list) <= room {
		return list, ""
	}
	room = max(room-1, 0)
	for _, p := range list[room:] {
		gpus += min(len(p.Cells[colBar]), 1)
	}
	rest = fmt.Sprintf("+%d GPUs +%d more", gpus, len(list)-room-gpus)
	rest = strings.TrimSuffix(strings.TrimPrefix(rest, "+0 GPUs "), " +0 more")
	if gpus == 1 {
		rest = strings.Replace(rest, "GPUs", "GPU", 1)
	}
	return list[:room], rest
}
