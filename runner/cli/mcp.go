package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/term"

	"gpurun/runner/agent"
	"gpurun/runner/batches"
	"gpurun/runner/terminal"
	"gpurun/state/disk"
	"gpurun/state/host"
	"gpurun/state/redact"
)

type mcpCmd struct {
	Root  []string `sep:"none" placeholder:"DIR" help:"Show the client only files below DIR (repeatable; default: current folder)."`
	Allow []string `placeholder:"control|run" help:"Also allow stopping and retrying jobs (control), or starting and adding them (run)."`
}

func (mcpCmd) Help() string {
	return helpText("Clients start this command themselves; without --allow they can only read.",
		"gpurun mcp --root ~/lab",
		"gpurun mcp --root ~/lab --root /data --allow control,run")
}

func (c *mcpCmd) Run(a *app) error {
	roots, err := c.roots()
	if err != nil {
		return err
	}
	for _, p := range c.Allow {
		if !slices.Contains(agent.Permissions, p) {
			return &batches.Failure{Code: batches.ExitUsage, Text: "--allow: unknown permission " + quoted(p), Hint: "use " + strings.Join(agent.Permissions, " or ") + ", or both separated by a comma"}
		}
	}
	self, err := os.Executable()
	if err != nil {
		return &batches.Failure{Code: batches.ExitInternal, Text: err.Error(), Err: err}
	}
	if term.IsTerminal(int(os.Stdin.Fd())) {
		a.say("note", "waiting for a Model Context Protocol client on standard input; clients start this command themselves (see docs/guide/agents.md). Press Ctrl-C to stop")
	}
	host.Confine(roots)
	ctx, stop := a.UntilSignal()
	defer stop()
	err = agent.Serve(ctx, agent.Config{
		Version: programVersion(), Roots: roots, Allow: c.Allow, Clean: terminal.CleanText,
		File: func(path string) (string, error) { return a.jobFile(roots[0], path) },
		Command: func(ctx context.Context, free bool, args []string) *exec.Cmd {
			return child(ctx, self, roots, free, args)
		},
	}, os.Stdin, os.Stdout)
	if cause := context.Cause(ctx); cause != nil || err == nil {
		return cause
	}
	return &batches.Failure{Code: batches.ExitInternal, Text: err.Error(), Err: err}
}

// roots returns the folders that the client may see, symlinks resolved.
func (c *mcpCmd) roots() ([]string, error) {
	given := c.Root
	if len(given) == 0 {
		given = []string{"."}
	}
	roots, err := rootFolders(given)
	if err != nil {
		return nil, err
	}
	if home := realHome(); len(c.Root) == 0 && (roots[0] == "/" || home == roots[0] || strings.HasPrefix(home, roots[0]+"/")) {
		return nil, &batches.Failure{Code: batches.ExitUsage, Text: "in " + roots[0] + ", the client would see all your files", Hint: "limit it to a folder: gpurun mcp --root DIR"}
	}
	return roots, nil
}

// rootFolders returns the folders in --root, symlinks resolved.
func rootFolders(given []string) ([]string, error) {
	var roots []string
	for _, dir := range given {
		real, err := filepath.Abs(dir)
		if err == nil {
			real, err = filepath.EvalSymlinks(real)
		}
		if err == nil {
			var fi os.FileInfo
			if fi, err = os.Stat(real); err == nil && !fi.IsDir() {
				err = fmt.Errorf("%s is not a folder", dir)
			}
		}
		if err != nil {
			return nil, &batches.Failure{Code: batches.ExitUsage, Text: "--root: " + err.Error(), Err: err}
		}
		roots = append(roots, real)
	}
	return roots, nil
}

// realHome returns this user's home folder, symlinks resolved, or "".
func realHome() string {
	home, err := os.UserHomeDir()
	if err == nil {
		home, err = filepath.EvalSymlinks(home)
	}
	if err != nil {
		return ""
	}
	return home
}

// jobFile returns the real path of a job file that the client may use.
func (a *app) jobFile(root, path string) (string, error) {
	if path == "" || strings.ContainsRune(path, 0) {
		return "", &batches.Failure{Code: batches.ExitUsage, Text: "has no job file"}
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(root, path)
	}
	if err := host.Within(path); err != nil {
		return "", err
	}
	real, err := disk.RealPath(path)
	if err != nil {
		return "", err
	}
	return real, a.Reachable(real)
}

// child returns a gpurun command. If free is set, the command runs as the user would run it.
// Otherwise, it is restricted to the roots, and its environment has no secrets, because a job file
// could reveal them in paths.
func child(ctx context.Context, self string, roots []string, free bool, args []string) *exec.Cmd {
	env := os.Environ()
	if !free {
		args = slices.Concat([]string{confinedTo}, roots, []string{"--"}, args)
		env = slices.DeleteFunc(env, func(v string) bool {
			name, _, _ := strings.Cut(v, "=")
			return redact.Named(name)
		})
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Dir, cmd.Env = roots[0], env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C in the client's terminal must not reach it
	return cmd
}

// A confined command, which gpurun mcp or gpurun web starts, can access only some folders.
// host.Confine enforces that when files are opened. Code here and in batches also checks who owns the
// job files, and the paths that job files name but that gpurun does not open.

// confinedTo is the first argument of a confined command. A list of folders follows it.
const confinedTo = "__confined"

// confine restricts this process to the folders at the start of the arguments, up to "--", and
// returns the remaining arguments. It makes the process print errors as JSON, because a program
// reads them.
func (a *app) confine(args []string) ([]string, error) {
	var folders []string
	for len(args) > 0 && args[0] != "--" {
		folders, args = append(folders, args[0]), args[1:]
	}
	if len(folders) == 0 || len(args) == 0 {
		return nil, &batches.Failure{Code: batches.ExitUsage, Text: confinedTo + " takes folders, then -- and a command"}
	}
	host.Confine(folders)
	a.json = true
	return args[1:], nil
}
