package cli

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"gpurun/jobspec/settings"
)

var updateReference = flag.Bool("update", false, "rewrite docs/reference/commands.md")

// docs/reference/commands.md is generated from the grammar.
func TestCommandsPageIsCurrent(t *testing.T) {
	t.Parallel()
	parser, err := newParser(&grammar{}, newApp(), nil)
	if err != nil {
		t.Fatal(err)
	}
	const path = "../../docs/reference/commands.md"
	want := commandsPage(parser.Model)
	if *updateReference {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("commands.md differs from the grammar (run go test ./runner/cli -run TestCommandsPageIsCurrent -update): %v", err)
	}
}

// commandsPage returns the page, which explains a flag of several commands once.
func commandsPage(app *kong.Application) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	users := map[string][]string{} // commands by flag and help
	groups := map[string][]*kong.Flag{}
	for _, cmd := range app.Children {
		for _, f := range cmd.Flags {
			if !cmd.Hidden {
				users[f.Name+f.Help] = append(users[f.Name+f.Help], cmd.Name)
			}
		}
	}
	say("# Commands\n\n<!-- Made from the grammar by go test ./runner/cli -run TestCommandsPageIsCurrent -update. -->\n\n")
	say("`gpurun FILE` is short for `gpurun run FILE`. `gpurun help COMMAND` prints examples. A JOB is a name or a quoted glob.\n")
	group := ""
	var shared []*kong.Flag
	for _, cmd := range app.Children {
		if cmd.Hidden {
			continue
		}
		if cmd.Group.Key != group {
			group = cmd.Group.Key
			say("\n## %s\n", group)
		}
		say("\n### %s\n\n`gpurun %s`: %s", cmd.Name, cmd.Summary(), escaped(cmd.Help))
		if detail, _, _ := strings.Cut(cmd.Detail, "Example"); strings.TrimSpace(detail) != "" {
			say(" %s", escaped(strings.TrimSpace(detail)))
		}
		var own []*kong.Flag
		var also []string
		for _, f := range cmd.Flags {
			switch {
			case f.Group != nil && len(users[f.Name+f.Help]) > 1:
				if !slices.Contains(also, f.Group.Key) {
					also = append(also, f.Group.Key)
				}
				if !slices.ContainsFunc(groups[f.Group.Key], func(g *kong.Flag) bool { return g.Name == f.Name }) {
					groups[f.Group.Key] = append(groups[f.Group.Key], f)
				}
			case len(users[f.Name+f.Help]) > 1:
				if !slices.ContainsFunc(shared, func(g *kong.Flag) bool { return g.Name+g.Help == f.Name+f.Help }) {
					shared = append(shared, f)
				}
			default:
				own = append(own, f)
			}
		}
		if len(also) > 0 {
			say(" [Shared flags](#shared-flags): %s.", strings.Join(also, ", "))
		}
		say("\n%s", flagTable(own, nil))
	}
	shared = slices.DeleteFunc(shared, func(f *kong.Flag) bool {
		return slices.ContainsFunc(groups["lines"], func(g *kong.Flag) bool { return g.Name+g.Help == f.Name+f.Help })
	})
	say("\n## Shared flags\n\nFlags of several commands:\n%s\nFlags of every command:\n%s", flagTable(shared, users), flagTable(app.Flags, nil))
	for _, g := range groupTitles {
		if g.Key == "settings" {
			say("\nSettings: every [setting](jobfile.md#settings) except `notify` is a flag, such as `--max-concurrent 2` (`-j 2`). Flags override the job files.\n")
		} else if len(groups[g.Key]) > 0 {
			say("\n%s\n%s", g.Title, flagTable(groups[g.Key], nil))
		}
	}
	for _, s := range []struct {
		title string
		rows  []row
	}{{"Exit statuses", exitRows}, {"Environment", append(flagVariables(app), environRows...)}, {"Files", fileRows}} {
		say("\n## %s\n\n| | |\n| --- | --- |\n", s.title)
		for _, r := range s.rows {
			say("| `%s` | %s |\n", strings.ReplaceAll(r.term, ", ", "`, `"), escaped(r.text))
		}
	}
	return b.String()
}

func flagTable(flags []*kong.Flag, users map[string][]string) string {
	if len(flags) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n| flag | |\n| --- | --- |\n")
	for _, f := range flags {
		name := "--" + f.Name
		if f.Tag.Negatable != "" {
			name = "--[no-]" + f.Name
		}
		if f.Short != 0 {
			name = "-" + string(f.Short) + "`, `" + name
		}
		if !f.IsBool() {
			name += " " + strings.Trim(f.FormatPlaceHolder(), `"`)
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", strings.ReplaceAll(name, "|", `\|`), strings.TrimSuffix(escaped(f.Help), "."))
	}
	return b.String()
}

func escaped(s string) string {
	return strings.NewReplacer("|", `\|`, "*", `\*`, "<", `\<`).Replace(s)
}

// A command's help is one short sentence. Each command has at most one more sentence and one to
// three examples.
func TestHelpIsShort(t *testing.T) {
	t.Parallel()
	parser, err := newParser(&grammar{}, newApp(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range parser.Model.Children {
		if len(cmd.Help) >= 60 || !regexp.MustCompile(`^[A-Z][a-z]+ [^.]*\.$`).MatchString(cmd.Help) {
			t.Errorf("%s: help %q, want a sentence of less than 60 characters", cmd.Name, cmd.Help)
		}
		if cmd.Hidden {
			continue
		}
		detail, examples, found := strings.Cut(cmd.Detail, "Example")
		if n := strings.Count(examples, "\n    "); !found || n < 1 || n > 3 || strings.Count(detail, ". ") > 0 {
			t.Errorf("%s: got %d examples, want 1 to 3 after at most one sentence: %q", cmd.Name, n, cmd.Detail)
		}
		for _, f := range cmd.Flags {
			if len(f.Help) > 110 || !strings.HasSuffix(f.Help, ".") {
				t.Errorf("%s --%s: help %q, want a sentence of at most 110 characters", cmd.Name, f.Name, f.Help)
			}
		}
	}
}

func TestHelpShowsDefaults(t *testing.T) {
	t.Parallel()
	parser, err := newParser(&grammar{}, newApp(), []string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	defaults := settings.Defaults()
	for _, def := range settings.Table {
		i := slices.IndexFunc(parser.Model.Children[0].Flags, func(f *kong.Flag) bool { return f.Name == strings.ReplaceAll(def.Name, "_", "-") })
		if i < 0 {
			continue
		}
		help := parser.Model.Children[0].Flags[i].Help
		value := map[string]string{"true": "yes", "false": "no"}[def.Show(&defaults)]
		if value == "" {
			value = def.Show(&defaults)
		}
		if value != "" && value != "-1" && !regexp.MustCompile(`\(([^()]*\W)?(`+regexp.QuoteMeta(value)+`|no limit|random)(\W[^()]*)?\)`).MatchString(help) {
			t.Errorf("--%s: %q lacks its default %q", def.Name, help, value)
		}
	}
}
