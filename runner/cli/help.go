package cli

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"gpurun/docs"
	"gpurun/runner/terminal"
)

// tour prints the commands for a first try, and a running batch on this host, if there is one.
func (a *app) tour() {
	fmt.Fprint(a.Err, `gpurun runs the jobs in a file on the GPUs of a shared machine. A job file:

    jobs:
      - name: "train-s{seed}"
        matrix: {seed: 1..3}
        run: python train.py --seed {seed}
        gpu_memory: 8GiB

    gpurun check jobs.yaml     find mistakes before they cost GPU hours
    gpurun run -d jobs.yaml    run it in the background (--sim 4x24GiB: on simulated GPUs)
    gpurun status              show progress, and what failed
    gpurun results             tabulate what the jobs measured

`)
	for ref := range a.recentBatches() {
		if row := ref.Row(); row.Run != nil && row.Run.Alive {
			fmt.Fprintf(a.Err, "Running here: %s (%s).\n", terminal.CleanText(ref.Name()), row.Tally)
			break
		}
	}
	fmt.Fprintln(a.Err, "All commands: gpurun --help. Help on a command or job file key: gpurun help TOPIC.")
}

// helpText returns the part of a command's help that does not list arguments and flags.
func helpText(about string, examples ...string) string {
	title := "Examples:"
	if len(examples) == 1 {
		title = "Example:"
	}
	return strings.TrimSpace(about + "\n\n" + title + "\n\n    " + strings.Join(examples, "\n    "))
}

// topic returns the text about word on the first reference page that covers it: the table rows for
// word, and any section that is titled word or that those rows link to. It returns "" if no page
// covers word, or if word is a command but not a job key.
func topic(word string, width int) string {
	heading, unnamed := regexp.MustCompile(`(?m)^##+ (.*)\n`), regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	anchor := func(title string) string {
		return "#" + strings.ReplaceAll(unnamed.ReplaceAllString(strings.ToLower(title), ""), " ", "-")
	}
	names, _ := fs.Glob(docs.Reference, "reference/*.md")
	for _, name := range append([]string{"reference/jobfile.md"}, names...) {
		page, _ := docs.Reference.ReadFile(name)
		var found []string
		wanted := []string{anchor(word)}
		var head, last string // the table's header, and the line before this one
		for line := range strings.Lines(string(page)) {
			if strings.HasPrefix(line, "| ---") {
				head = last + line
			}
			last = line
			if key, _, row := strings.Cut(strings.TrimPrefix(line, "| "), " | "); row && strings.HasPrefix(line, "|") && strings.Contains(key, "`"+word+"`") {
				found = append(found, head+line+"\n")
				if m := links().FindStringSubmatch(line); m != nil {
					wanted = append(wanted, m[2])
				}
			}
		}
		titles := heading.FindAllSubmatchIndex(page, -1)
		for i, at := range titles {
			end := len(page)
			if i+1 < len(titles) {
				end = titles[i+1][0]
			}
			if section := string(page[at[2]:end]); slices.Contains(wanted, anchor(string(page[at[2]:at[3]]))) {
				found = append(slices.DeleteFunc(found, func(rows string) bool {
					row := strings.TrimSpace(rows)
					return strings.Contains(section, row[strings.LastIndexByte(row, '\n')+1:])
				}), section)
			}
		}
		if len(found) > 0 && name != "reference/commands.md" && (name == "reference/jobfile.md" || !slices.Contains(shownCommands(), word)) {
			return readable(strings.Join(found, ""), width)
		}
	}
	return ""
}

// links returns a pattern for Markdown links. Its groups are the text, and the section for a link
// within the page.
func links() *regexp.Regexp { return regexp.MustCompile(`\[([^]]*)\]\((#[^)]*)?[^)]*\)`) }

// readable formats part of a page for a terminal.
func readable(markdown string, width int) string {
	var out, paragraph []string
	code, defaults, link := false, false, links()
	flush := func() {
		if len(paragraph) > 0 {
			out = append(out, terminal.Wrap(link.ReplaceAllString(strings.Join(paragraph, " "), "$1"), width, 2)...)
			paragraph = nil
		}
	}
	for line := range strings.Lines(markdown) {
		line = strings.TrimRight(line, "\n")
		switch fence := strings.HasPrefix(strings.TrimSpace(line), "```"); {
		case strings.HasPrefix(strings.TrimLeft(line, "| "), "--"):
			defaults = strings.HasSuffix(out[len(out)-1], "default")
			out = out[:len(out)-1] // drop the header of a table
		case fence:
			flush()
			code = !code
		case code:
			out = append(out, "    "+line)
		case line == "" || strings.HasPrefix(line, "|"):
			flush()
			if cells := strings.Split(strings.Trim(line, "| "), " | "); line != "" {
				if n := len(cells) - 1; defaults {
					if cells[n] != "none" {
						cells[n-1] += " (default: " + cells[n] + ")"
					}
					cells = cells[:n]
				}
				paragraph = []string{strings.TrimRight(cells[0]+": "+strings.Join(cells[1:], " — "), "— ")}
				flush()
			} else {
				out, defaults = append(out, ""), false
			}
		case strings.HasPrefix(line, "- "):
			flush()
			paragraph = []string{line}
		default:
			paragraph = append(paragraph, strings.TrimSpace(line))
		}
	}
	flush()
	return strings.TrimRight(strings.Join(out, "\n"), "\n") + "\n"
}
