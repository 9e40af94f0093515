package capture

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"al.essio.dev/pkg/shellescape"
	"golang.org/x/sys/unix"

	"gpurun/jobspec/lint"
	"gpurun/jobspec/source"
	"gpurun/runner/engine"
	"gpurun/runner/engine/procs"
)

// A pane is a terminal of tmux or screen. Its shell or command reads what the launcher types.
type pane struct {
	*job
	program, session, title string // program is "" after the launcher closed the pane
	window, index           int
	keys                    *os.File // the pipe that it reads
	in                      int      // descriptor for writing to that pipe
	line                    string   // typed, but not entered
	used                    bool     // it was given a command
	shell                   bool     // it runs a shell, which reads what the launcher types
	hooked                  bool     // conda activate works
	inside                  string   // interactive program that the shell runs, which reads the next lines
}

// names returns the targets that include a pane.
func (p *pane) names() []string {
	s, w, t := p.session+":", strconv.Itoa(p.window), "."+strconv.Itoa(p.index)
	return []string{p.session, p.session + t, fmt.Sprint(p.pid, ".", p.session), s, s + w, s + p.title, s + w + t, s + p.title + t, fmt.Sprint("%", p.Group)}
}

// find returns the panes of a target, the selected one last. It tries the target as it is, then
// completed with the current window or session. tmux itself tries the completed target first: if a
// loop sends keys to session 0, tmux types them in pane 0 of the newest session.
func (h *host) find(program, target string) []*pane {
	list := slices.DeleteFunc(slices.Clone(h.panes), func(p *pane) bool { return p.program != program })
	if target = strings.TrimPrefix(target, "="); target == "" || len(list) == 0 {
		return list
	}
	last := list[len(list)-1]
	for _, t := range []string{target, fmt.Sprintf("%s:%d.%s", last.session, last.window, strings.TrimPrefix(target, ".")), last.session + ":" + strings.TrimPrefix(target, ":")} {
		if found := slices.DeleteFunc(slices.Clone(list), func(p *pane) bool { return !slices.Contains(p.names(), t) }); len(found) > 0 {
			return found
		}
	}
	list = slices.DeleteFunc(list, func(p *pane) bool { return !strings.HasPrefix(p.session, target) })
	if slices.ContainsFunc(list, func(p *pane) bool { return p.session != list[0].session }) {
		return nil
	}
	return list
}

// window returns the number for a new window: the one that the launcher wants, or the first free one.
func (h *host) window(p *pane, wanted string) int {
	n, err := strconv.Atoi(wanted)
	if err != nil && p.program == "tmux" {
		n = h.base["base-index"]
	}
	for err != nil && slices.ContainsFunc(h.panes, func(o *pane) bool { return o.program == p.program && o.session == p.session && o.window == n }) {
		n++
	}
	return n
}

func alive(list []*pane) []*pane {
	return slices.DeleteFunc(slices.Clone(list), func(p *pane) bool { return p.pid <= 0 })
}

// terminal runs a tmux or screen command.
func (h *host) terminal(x *held) {
	if words := x.Record.Argv[1:]; filepath.Base(x.Record.Argv[0]) == "screen" {
		h.screen(x, words)
	} else {
		h.tmux(x, words)
	}
	if x.After != nil || x.Channel != "" {
		h.waits = append(h.waits, x)
	} else {
		x.answer(message{Text: x.Text, Status: x.Status})
	}
}

func (x *held) fail(text string) { x.Text, x.Status = x.Text+text+"\n", 1 }

// refuse stops the launcher, because gpurun cannot follow what it does in a terminal.
func (h *host) refuse(x *held, why string) {
	h.report.Stopped = fmt.Sprintf("gpurun capture cannot follow %s in the launcher: %s", shellescape.QuoteCommand(x.Record.Argv), why)
}

const notStarted = "the launcher does not start that session (run the commands directly)"

// logging is a shell command that sends all later output to a file.
const logging = "exec >>%s 2>&1\n"

// open starts a command in a new pane or, if argv is empty, a shell. Its output goes to log, unless
// that is "".
func (h *host) open(x *held, p *pane, argv []string, log string) {
	p.used = len(argv) > 0
	if p.shell = !p.used; p.shell {
		argv = []string{"bash"}
	}
	if log != "" {
		argv = append([]string{"bash", "-c", fmt.Sprintf(logging, shellescape.Quote(log)) + `exec "$0" "$@"`}, argv...)
	}
	p.job = &job{message: message{Record: Record{Argv: argv, Env: x.Record.Env, Dir: x.Record.Dir}, Group: len(h.jobs) + 1}, path: h.path(x.PID)}
	h.jobs, h.panes, h.changed = append(h.jobs, p.job), append(h.panes, p), time.Now()
	var ends [2]int
	if unix.Pipe2(ends[:], unix.O_CLOEXEC) == nil {
		p.keys, p.in = os.NewFile(uintptr(ends[0]), "keys"), ends[1]
		_, _ = unix.FcntlInt(uintptr(p.in), unix.F_SETPIPE_SZ, 1<<18)
		_ = unix.SetNonblock(p.in, true)
		h.begin(p.job, p.keys)
		delete(h.running, p.pid) // the capture need not wait for it
	}
	if p.pid <= 0 {
		x.fail("cannot start " + argv[0])
	}
}

// write types text into a pane. Complete lines are commands for the pane's shell.
func (h *host) write(x *held, p *pane, text string) {
	text = p.line + strings.ReplaceAll(text, "\r", "\n")
	end := strings.LastIndexByte(text, '\n') + 1
	lines := text[:end]
	p.line, p.used = text[end:], p.used || end > 0
	for line := range strings.Lines(lines) {
		if p.inside != "" {
			h.refuse(x, "it types into "+p.inside+" (run its commands directly)")
		}
		p.inside = strings.TrimSpace(interactive().FindString(line))
	}
	if !p.hooked && strings.Contains(lines, "conda activate") { // in a real terminal, the shell's startup files do this
		p.hooked, lines = true, `eval "$("${CONDA_EXE:-conda}" shell.bash hook)"`+"\n"+lines
	}
	if n, _ := unix.Write(p.in, []byte(lines)); n < len(lines) {
		h.refuse(x, "it types too much (run its commands directly)")
	}
}

// unread warns about what the launcher typed without effect.
func (h *host) unread() {
	for _, p := range h.panes {
		n, _ := unix.IoctlGetInt(int(p.keys.Fd()), unix.TIOCINQ)
		text := make([]byte, n)
		if n > 0 {
			_, _ = p.keys.Read(text)
		}
		if line, _, _ := strings.Cut(string(text)+p.line, "\n"); line != "" {
			why := "the shell had exited or another program was still running"
			if n == 0 {
				why = "does not press Enter"
			}
			note(&h.report.Warnings, fmt.Sprintf("the launcher types %q in session %s, but %s: skipped", line, p.session, why))
		}
	}
}

// close closes panes. Their commands remain jobs.
func (h *host) close(x *held, list []*pane) {
	for _, p := range list {
		p.program = ""
		h.closed = append(h.closed, closing{p.pid, shellescape.QuoteCommand(x.Record.Argv)})
	}
}

// A closing is a pane that the launcher closed.
type closing struct {
	pid int
	by  string
}

// noteClosed warns about panes that the launcher closed before their commands ended. It is called when
// all processes sleep: by then, the shell of each pane has reached its next command, if there is one.
func (h *host) noteClosed() {
	for _, p := range h.closed {
		if slices.ContainsFunc(h.held, func(c *held) bool {
			return slices.ContainsFunc(h.path(c.PID), func(id procs.ID) bool { return id.PID == p.pid })
		}) {
			note(&h.report.Warnings, "the launcher stops commands ("+p.by+"), but jobs run to completion")
		}
	}
	h.closed = nil
}

var (
	// tmuxNames are the full names of tmux's short commands.
	tmuxNames = map[string]string{"new": "new-session", "neww": "new-window", "splitw": "split-window", "send": "send-keys", "has": "has-session", "wait": "wait-for", "ls": "list-sessions", "lsw": "list-windows", "lsp": "list-panes",
		"display": "display-message", "pipep": "pipe-pane", "rename": "rename-session", "renamew": "rename-window", "selectw": "select-window", "selectp": "select-pane", "killw": "kill-window", "killp": "kill-pane"}
	// tmuxLooks matches commands that only change what a terminal shows.
	tmuxLooks = source.Regexp(`^(?:a|at|attach.*|bind.*|capture.*|clear.*|detach.*|pipe.*|refresh.*|resize.*|select-layout|selectl|set.*|show.*|source.*|start.*|switch.*|unbind.*)$`)
	tmuxActs  = source.Regexp(`^(?:has-session|list-\w+|display-message|rename-(?:session|window)|select-(?:window|pane)|kill-\w+)$`)
	enterKey  = source.Regexp(`(?i)^(?:(?:KP)?Enter|(?:C-|\^)[mj])$`)
	otherKey  = source.Regexp(`(?i)^(?:(?:[CMS]-)+.|\^.|Up|Down|Left|Right|Escape|B?Tab|BSpace|DC|IC|Home|End|[NP]Page|Pg(?:Up|Dn)|Page(?:Up|Down)|F\d+|KP.+)$`)
	// interactive matches a line that starts an interactive program.
	interactive = source.Regexp(`^\s*(?:ssh(?:\s+-\S+)*\s+[^-\s]\S*|(?:docker|podman|singularity|apptainer|kubectl)\s.*\b(?:ba|z)?sh|(?:singularity|apptainer)\s+shell\s.*|i?python[0-9.]*)\s*$`)
	// paneLog matches a shell command that appends its input to a file.
	paneLog = source.Regexp(`^\s*(?:exec\s+)?(?:cat(?:\s+-u)?\s*>>?|tee(?:\s+-a)?\s)\s*(\S+)\s*$`)
	// baseIndex matches a tmux command that sets the number of each session's first window, or of
	// each window's first pane.
	baseIndex = source.Regexp(`(?m)^\s*set\S*\s+(?:-\w+\s+)?((?:pane-)?base-index)\s+(\d+)\s*$`)
	// stuffed matches what screen's stuff command replaces in its argument before it types the text.
	stuffed = source.Regexp(`\\[0-7]{1,3}|\\.|\^.|\$\{?\w+\}?`)
)

// tmux runs the commands of a tmux call, which are separated by semicolons.
func (h *host) tmux(x *held, words []string) {
	values, words := lint.ShortOptions(words, "LSfcT")
	if h.base == nil {
		h.base = map[string]int{}
		home := engine.Variable(x.Record.Env, "HOME")
		for _, path := range []string{"/etc/tmux.conf", home + "/.tmux.conf", home + "/.config/tmux/tmux.conf"} {
			text, _ := os.ReadFile(path)
			h.setBase(string(text))
		}
	}
	if values['V'] != nil {
		x.Text = "tmux 3.4\n"
	} else if len(words) == 0 {
		words = []string{"new-session"}
	}
	var command []string
	for _, w := range append(words, ";") {
		w, ends := strings.CutSuffix(w, ";")
		if escaped, ok := strings.CutSuffix(w, `\`); ends && ok {
			w, ends = escaped+";", false
		}
		if w != "" || !ends {
			command = append(command, w)
		}
		if ends && command != nil && x.Status == 0 && h.report.Stopped == "" {
			h.tmuxCommand(x, command)
			command = nil
		}
	}
}

// setBase notes which numbers tmux commands, one a line, give to the first windows and panes.
func (h *host) setBase(commands string) {
	for _, m := range baseIndex().FindAllStringSubmatch(commands, -1) {
		h.base[m[1]], _ = strconv.Atoi(m[2])
	}
}

func (h *host) tmuxCommand(x *held, words []string) {
	name := cmp.Or(tmuxNames[words[0]], words[0])
	verb, what, _ := strings.Cut(name, "-")
	opens := name == "new-session" || name == "new-window" || name == "split-window"
	values, rest := lint.ShortOptions(words[1:], map[bool]string{false: "FtN", true: "ceFlnpstxy"}[opens])
	target, first := strings.Join(values['t'], ""), strings.Join(rest[:min(1, len(rest))], "")
	found := h.find("tmux", target)
	live := alive(found)
	switch {
	case name == "pipe-pane" && len(live) > 0:
		p := live[len(live)-1]
		if m := paneLog().FindStringSubmatch(p.format(first)); m != nil && p.line == "" && p.shell {
			file := m[1]
			if !strings.ContainsAny(file[:1], "/~$'\"") {
				file = pathIn(p.Record.Dir, file)
			}
			h.write(x, p, fmt.Sprintf(logging, file))
		}
	case tmuxLooks().MatchString(name):
		h.setBase(strings.Join(words, " "))
	case opens:
		h.tmuxOpen(x, name, target, values, rest)
	case name == "send-keys" && len(found) == 0:
		h.refuse(x, notStarted)
	case name == "send-keys":
		h.sendKeys(x, found[len(found)-1], values['l'] != nil, rest)
	case name == "wait-for" && values['S'] != nil:
		n := len(h.waits)
		h.waits = slices.DeleteFunc(h.waits, func(w *held) bool {
			if w.Channel == first {
				w.answer(message{})
			}
			return w.Channel == first
		})
		h.signals[first] = len(h.waits) == n
	case name == "wait-for" && h.signals[first]:
		delete(h.signals, first)
	case name == "wait-for":
		x.Channel = first
	case !tmuxActs().MatchString(name):
		h.refuse(x, "it uses "+name+" (run its commands directly)")
	case len(live) == 0:
		x.fail("can't find session: " + target)
	case verb == "list" || verb == "display":
		format := cmp.Or(strings.Join(append(values['F'], rest...), " "), map[string]string{"sessions": "#S: 1 windows", "windows": "#I: #W"}[what], "#P: #D")
		if verb == "display" {
			live = live[len(live)-1:]
		}
		for _, p := range live {
			if line := p.format(format) + "\n"; !strings.HasSuffix(x.Text, line) {
				x.Text += line
			}
		}
	case name == "rename-session":
		for _, p := range found {
			p.session = first
		}
	case name == "rename-window":
		live[len(live)-1].title = first
	case verb == "select":
		p := live[len(live)-1]
		h.panes = append(slices.DeleteFunc(h.panes, func(o *pane) bool { return o == p }), p)
	case verb == "kill":
		h.close(x, found)
	}
}

// format replaces tmux's variables in text.
func (p *pane) format(text string) string {
	id, window, index := fmt.Sprint("%", p.Group), strconv.Itoa(p.window), strconv.Itoa(p.index)
	return strings.NewReplacer("#{session_name}", p.session, "#S", p.session, "#{window_index}", window, "#I", window, "#{window_name}", p.title, "#W", p.title,
		"#{pane_index}", index, "#P", index, "#{pane_id}", id, "#D", id, "#{pane_pid}", strconv.Itoa(p.pid)).Replace(text)
}

// tmuxOpen opens a pane in a new session, in a new window or, for split-window, beside another pane.
func (h *host) tmuxOpen(x *held, name, target string, values map[byte][]string, argv []string) {
	p := &pane{program: "tmux", index: h.base["pane-base-index"], session: cmp.Or(strings.Join(values['s'], ""), strconv.Itoa(len(h.jobs))), title: strings.Join(values['n'], "")}
	p.session = strings.NewReplacer(":", "_", ".", "_").Replace(p.session)
	session, number, _ := strings.Cut(target, ":")
	if name == "split-window" {
		session = target
	}
	switch beside := h.find("tmux", session); {
	case name == "new-session":
		p.window = h.base["base-index"]
		same := slices.DeleteFunc(h.find("tmux", ""), func(o *pane) bool { return o.session != p.session })
		if len(alive(same)) > 0 {
			if values['A'] == nil {
				x.fail("duplicate session: " + p.session)
			}
			return
		}
		h.close(x, same)
	case len(beside) == 0 && target != "":
		h.refuse(x, notStarted)
		return
	case len(beside) == 0: // in the session of the launcher itself
		p.window = 1
	case name == "split-window":
		o := beside[len(beside)-1]
		p.session, p.title, p.window, p.index = o.session, o.title, o.window, o.index+1
		for _, q := range beside {
			if q.session == p.session && q.window == p.window && q.index >= p.index {
				q.index++
			}
		}
	default:
		p.session = beside[len(beside)-1].session
		p.window = h.window(p, number)
	}
	for _, dir := range values['c'] {
		x.Record.Dir = pathIn(x.Record.Dir, dir)
	}
	x.Record.Env = append(x.Record.Env, values['e']...)
	if len(argv) == 1 {
		argv = append([]string{"bash", "-c"}, argv...)
	}
	h.open(x, p, argv, "")
	if values['P'] != nil {
		x.Text += p.format(cmp.Or(strings.Join(values['F'], ""), "#S:#I.#P")) + "\n"
	}
	if name == "new-session" && values['d'] == nil && p.used {
		x.After = []int{p.Group}
	}
}

// sendKeys types text and presses keys.
func (h *host) sendKeys(x *held, p *pane, literal bool, keys []string) {
	for _, k := range keys {
		switch lower := strings.ToLower(k); {
		case literal:
		case enterKey().MatchString(k):
			k = "\n"
		case lower == "space":
			k = " "
		case lower == "c-d":
			k = "exit\n"
		case lower == "c-l":
			continue
		case lower == "c-u" || lower == "c-c" && !p.used:
			p.line = ""
			continue
		case otherKey().MatchString(k):
			h.refuse(x, "it presses "+k+" (type commands in full, or run them directly)")
			return
		}
		h.write(x, p, k)
	}
}

// screen runs a screen command.
func (h *host) screen(x *held, words []string) {
	const valued = "SpthscTe"
	log := ""
	if i := slices.Index(words, "-Logfile"); i >= 0 && i+1 < len(words) {
		log, words = pathIn(x.Record.Dir, words[i+1]), slices.Delete(slices.Clone(words), i, i+2)
	}
	if len(words) == 1 && (words[0] == "-ls" || words[0] == "-list" || words[0] == "-wipe") {
		live := alive(h.find("screen", ""))
		for _, p := range live {
			x.Text += fmt.Sprintf("\t%d.%s\t(Detached)\n", p.pid, p.session)
		}
		if live == nil {
			x.fail("No Sockets found.")
		}
		return
	}
	values, rest := lint.ShortOptions(words, valued)
	resumes := values['r'] != nil || values['R'] != nil || values['x'] != nil
	if resumes && values['X'] == nil && len(rest) > 0 {
		values, rest = lint.ShortOptions(append([]string{"-S"}, rest...), valued)
	}
	session, window := strings.Join(values['S'], ""), strings.Join(values['p'], "")
	found := h.find("screen", session)
	if window != "" && len(found) > 0 {
		found = h.find("screen", found[len(found)-1].session+":"+window)
	}
	p := &pane{program: "screen", session: session, title: strings.Join(values['t'], "")}
	verb := strings.Join(rest[:min(1, len(rest))], "")
	switch {
	case values['X'] == nil && resumes:
	case values['X'] == nil:
		p.session = cmp.Or(session, "pts")
		if values['L'] == nil {
			log = ""
		}
		if h.open(x, p, rest, log); p.used && (values['m'] == nil || values['d'] == nil) {
			x.After = []int{p.Group}
		}
	case len(found) == 0 && (verb == "stuff" || verb == "screen"):
		h.refuse(x, notStarted)
	case len(found) == 0:
		x.fail("No screen session found.")
	case verb == "screen":
		values, rest := lint.ShortOptions(rest[1:], valued)
		p.session, p.title = found[0].session, strings.Join(values['t'], "")
		number := ""
		if len(rest) > 0 && strings.Trim(rest[0], "0123456789") == "" {
			number, rest = rest[0], rest[1:]
		}
		p.window = h.window(p, number)
		h.open(x, p, rest, "")
	case verb == "stuff":
		p := found[len(found)-1]
		h.write(x, p, stuffed().ReplaceAllStringFunc(strings.Join(rest[1:], " "), func(s string) string {
			switch {
			case slices.Contains([]string{`\n`, `\r`, `\012`, `\015`, "^M", "^J"}, s):
				return "\n"
			case s[0] == '$':
				return engine.Variable(p.Record.Env, strings.Trim(s, "${}"))
			case s[0] == '\\' && (s[1] < '0' || s[1] > '7'):
				return s[1:]
			case s != "^U" && (s != "^C" || p.used):
				h.refuse(x, "it presses "+s+" (type commands in full, or run them directly)")
			}
			return ""
		}))
	case verb == "quit" || verb == "kill":
		h.close(x, found)
	case slices.Contains([]string{"exec", "eval", "source", "readbuf", "paste", "process"}, verb):
		h.refuse(x, "it uses "+verb+" (run its commands directly)")
	}
}
