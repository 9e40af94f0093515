package cli

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/rs/zerolog"

	"gpurun/gpu/probe"
	"gpurun/runner/session"
	"gpurun/state/host"
	"gpurun/state/schema"
)

type versionCmd struct {
	gpuFlags `embed:""`
	JSON     bool `name:"json" help:"Print the versions as JSON."`
}

func (versionCmd) Help() string {
	return helpText("",
		"gpurun version",
		"gpurun version --json")
}

// Run prints gpurun's version first, because the driver may take seconds to report its own. A
// missing driver is not a failure.
func (c *versionCmd) Run(a *app) error {
	v := schema.Versions{Head: schema.At(time.Now()), Gpurun: programVersion(), Go: runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH}
	v.Commit, v.Date = schema.Known(buildSetting("vcs.revision")), schema.Known(buildSetting("vcs.time"))
	if !c.JSON {
		if _, err := fmt.Fprintf(a.out, "gpurun %s\n%s\n", v.Gpurun, v.Go); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	answered := a.announceDriverWait(false)
	p, err := probe.Open(ctx, probe.Options{Library: c.NVML, Log: zerolog.Nop(), Now: host.Boottime})
	answered()
	if err != nil {
		v.Error = schema.Known(err.Error())
	} else {
		v.NVML = schema.Known(p.Version())
		p.Close()
	}
	rules := session.HostRulesOf(nil)
	a.Warn(rules.Warnings...)
	v.Rules = schema.Known(rules.File)
	if c.JSON {
		return writeJSON(a.out, v)
	}
	nvml := cmp.Or(schema.Value(v.NVML), "NVML not available: "+schema.Value(v.Error))
	host := "no host rules (" + session.HostRulesAt.Path + ")"
	if v.Rules != nil {
		host = "host rules " + *v.Rules
	}
	_, err = fmt.Fprintf(a.out, "%s\n%s\n", nvml, host)
	return err
}

// version is set by the linker to git's description of the commit.
var version string

// programVersion returns the version set by the Makefile, or else the module version, which Go
// derives from the commit.
func programVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	switch {
	case !ok:
		return "unknown"
	case info.Main.Version != "" && info.Main.Version != "(devel)":
		return info.Main.Version
	}
	return "development"
}

// buildSetting returns a build setting recorded by Go, such as vcs.revision, or "".
func buildSetting(key string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == key {
				return s.Value
			}
		}
	}
	return ""
}
