package session

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// logindFiles are logind's settings files, from lowest to highest priority.
var logindFiles = []string{"/usr/lib/systemd/logind.conf", "/etc/systemd/logind.conf", "/usr/lib/systemd/logind.conf.d/*.conf", "/etc/systemd/logind.conf.d/*.conf", "/run/systemd/logind.conf.d/*.conf"}

// LogoutKills returns a warning and a fix if logging out kills this process's children. A hang-up
// does not kill them, but logind can be configured to kill all processes of a session.
func LogoutKills() (warning, fix string) {
	cgroup, _ := os.ReadFile("/proc/self/cgroup")
	var settings []string
	for _, pattern := range logindFiles {
		found, _ := filepath.Glob(pattern)
		slices.Sort(found)
		for _, f := range found {
			b, _ := os.ReadFile(f)
			settings = append(settings, string(b))
		}
	}
	if os.Getuid() == 0 || !killedAtLogout(string(cgroup), settings) {
		return "", ""
	}
	return "logging out ends this run and its jobs: logind kills leftover processes of a session (KillUserProcesses=yes)", "run loginctl enable-linger, and start gpurun with: systemd-run --user --scope gpurun …"
}

// killedAtLogout evaluates the contents of /proc/self/cgroup and logind's settings.
func killedAtLogout(cgroup string, settings []string) bool {
	if !strings.Contains(cgroup, "/session-") || !strings.Contains(cgroup, ".scope") {
		return false
	}
	kill := false
	for _, text := range settings {
		for _, line := range strings.Split(text, "\n") {
			key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
			if ok && strings.TrimSpace(key) == "KillUserProcesses" {
				kill = slices.Contains([]string{"yes", "true", "1", "on"}, strings.ToLower(strings.TrimSpace(value)))
			}
		}
	}
	return kill
}
