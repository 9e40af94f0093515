package hostrules

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpurun/gpu"
)

// whole is a file with every key, and full contains the resulting rules.
const whole = `
devices: [0-6, GPU-1234]
reserve: 1
schedule: fifo
courtesy: 7s
gather: 20m
patience: 5m
max_gpus_per_user: 6
max_gpus_per_job: 4
max_timeout: 24h
others: avoid
hours:
  - {devices: [6], when: "Mon-Fri 20:00-08:00, Sat-Sun"}
  - 06:00-07:00
prompt: "down on
  Friday 18:00"
users:
  alice: {priority: 2, max_gpus: 8, until: 2026-12-01}
  "@students": {max_gpus: 2, priority: -3, until: "2026-12-01 18:30"}
  mallory: {max_gpus: 0}
`

func hours(t *testing.T, text string) gpu.Hours {
	t.Helper()
	h, err := gpu.ParseHours(text)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestEveryKeyIsParsed(t *testing.T) {
	zone := time.FixedZone("here", 3600)
	got, problems, ok := parse("host.yaml", []byte(whole), zone)
	if !ok || len(problems) > 0 {
		t.Fatal(problems)
	}
	num := func(n int) *int { return &n }
	want := gpu.HostRules{
		File: "host.yaml", Devices: []string{"0-6", "GPU-1234"}, Reserve: 1, MaxGPUsPerUser: 6, MaxGPUsPerJob: 4,
		MaxTimeout: 24 * time.Hour, Others: gpu.OthersAvoid, Prompt: "down on Friday 18:00",
		Hours: []gpu.DeviceHours{
			{Devices: []string{"6"}, Hours: hours(t, "Mon-Fri 20:00-08:00, Sat-Sun")},
			{Hours: hours(t, "06:00-07:00")},
		},
		Users: []gpu.UserEntry{
			{Key: "alice", Priority: num(2), MaxGPUs: num(8), Until: time.Date(2026, 12, 2, 0, 0, 0, 0, zone)},
			{Key: "@students", Priority: num(-3), MaxGPUs: num(2), Until: time.Date(2026, 12, 1, 18, 30, 0, 0, zone)},
			{Key: "mallory", MaxGPUs: num(0)},
		},
		Fairness: gpu.Fairness{Schedule: gpu.FIFO, Courtesy: 7 * time.Second, Gather: 20 * time.Minute, Patience: 5 * time.Minute},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	// Without any key, the rules are those of a host without a file.
	none := *gpu.NoHostRules()
	none.File = "host.yaml"
	if got, _, ok := parse("host.yaml", []byte("# nothing yet\n"), zone); !ok || !reflect.DeepEqual(got, none) {
		t.Errorf("only comments: got %v, %+v, want the defaults", ok, got)
	}
}

func TestInvalidRulesAreIgnoredWithAWarning(t *testing.T) {
	tests := []struct{ text, want string }{
		{"max_gpu_per_user: 6", `host.yaml:1:1: unknown key "max_gpu_per_user" (ignored); did you mean "max_gpus_per_user"?`},
		{"quantum: 3", `host.yaml:1:1: unknown key "quantum" (ignored); valid keys: devices, reserve, schedule, courtesy, gather, patience, max_gpus_per_user, max_gpus_per_job, max_timeout, others, hours, prompt, users; the file may be for a newer gpurun`},
		{"devices: [0, seven]", `host.yaml:1:14: devices: invalid GPU ID "seven" (ignored); use indices (0,2-3) or UUIDs (GPU-…)`},
		{"devices: {a: 1}", `host.yaml:1:10: devices must be a list, not a mapping (ignored)`},
		{"reserve: -1", `host.yaml:1:10: reserve: "-1" is negative (ignored)`},
		{"schedule: fair", `host.yaml:1:11: schedule: unknown value "fair" (ignored); valid values: balance, fifo`},
		{"courtesy: 5", `host.yaml:1:11: courtesy: "5" has no unit (ignored); write 5s or 5m`},
		{"courtesy: 0", `host.yaml:1:11: courtesy: invalid time "0" (ignored); try 5s, 10m or 24h`},
		{"gather: soon", `host.yaml:1:9: gather: invalid duration "soon" (ignored); try 90s, 10m, 1h30m or 2d`},
		{"patience: [1m]", `host.yaml:1:11: patience must be a single value, not a list (ignored)`},
		{"max_gpus_per_user: many", `host.yaml:1:20: max_gpus_per_user: "many" is not a number (ignored)`},
		{"max_gpus_per_job: 1.5", `host.yaml:1:19: max_gpus_per_job: "1.5" is not a whole number (ignored)`},
		{"max_timeout: 1-12:00:00", `host.yaml:1:14: max_timeout: invalid duration "1-12:00:00" (ignored); try 1d12h`},
		{"others: avoided", `host.yaml:1:9: others: unknown value "avoided" (ignored); did you mean "avoid"?`},
		{"hours: [{devices: [6]}]", `host.yaml:1:9: this hours entry has no when (ignored); add when: "Mon-Fri 20:00-08:00, Sat-Sun"`},
		{"hours: [{devices: [x], when: Sat}]", `host.yaml:1:20: devices: invalid GPU ID "x" (ignored); use indices (0,2-3) or UUIDs (GPU-…)`},
		{"hours: [{device: [6], when: Sat-So}]", `host.yaml:1:10: unknown key "device" (ignored); did you mean "devices"?
host.yaml:1:29: when: invalid day "Sat-So" (try Mon or Mon-Fri) (ignored); try 20:00-08:00, or "Mon-Fri 20:00-08:00, Sat-Sun"`},
		{"users: {alice: 8}", `host.yaml:1:16: users: alice must be a mapping (name: value), not the number 8 (ignored)`},
		{"users: {alice: {max_gpu: 8}}", `host.yaml:1:17: unknown key "max_gpu" (ignored); did you mean "max_gpus"?`},
		{"users: {alice: {priority: high}}", `host.yaml:1:27: priority: "high" is not a number (ignored)`},
		{"users: {alice: {until: tomorrow}}", `host.yaml:1:24: until: "tomorrow" is not a date (ignored); write 2026-12-01 or "2026-12-01 18:00"`},
		{"reserve: 1\nreserve: 2", `host.yaml:2:1: duplicate key "reserve", first on line 1 (ignored); keep only one`},
		{"users:\n  @students: {max_gpus: 2}", `host.yaml:2:3: "@students: {max_gpus: 2}" is not valid YAML: found character that cannot start any token; quote it: "@students"`},
		{"- 3", `host.yaml:1:1: the file must be a mapping (name: value), not a list`},
		{" \n", `host.yaml: is empty`},
	}
	for _, tt := range tests {
		rules, problems, _ := parse("host.yaml", []byte(tt.text), time.UTC)
		var got []string
		for _, p := range problems {
			got = append(got, p.Error())
		}
		if got := strings.Join(got, "\n"); got != tt.want {
			t.Errorf("%s\ngot  %s\nwant %s", tt.text, got, tt.want)
		}
		// Invalid rules are not enforced.
		rules.File, rules.Users = "", nil
		if none := *gpu.NoHostRules(); tt.text != "reserve: 1\nreserve: 2" && !reflect.DeepEqual(rules, none) {
			t.Errorf("%s: got rules %+v, want the defaults", tt.text, rules)
		}
	}
	// The rest of a file with unknown keys and invalid values still applies.
	rules, _, ok := parse("host.yaml", []byte("future: 1\nreserve: x\nmax_gpus_per_job: 2\nusers: {a: {x: 1, max_gpus: 3}}"), time.UTC)
	if !ok || rules.MaxGPUsPerJob != 2 || len(rules.Users) != 1 || *rules.Users[0].MaxGPUs != 3 {
		t.Errorf("the rest of the file does not apply: %v, %+v", ok, rules)
	}
}

// place returns a place for a rules file of which this user is the required owner.
func place(t *testing.T) Place {
	t.Helper()
	t.Setenv(Variable, "")
	dir := filepath.Join(t.TempDir(), "gpurun")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return Place{Path: filepath.Join(dir, "host.yaml"), Owner: os.Getuid()}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// look reads the rules and returns one of them, with the warnings.
func look(r *Reader) (reserve int, warnings string) {
	rules, list := r.Read(os.Getuid())
	return rules.Reserve, strings.Join(list, "\n")
}

func TestOnlyTrustedFilesApply(t *testing.T) {
	tests := []struct {
		name string
		do   func(at *Place) error
		want string // part of the warning; "" if the file applies
	}{
		{"trusted", func(*Place) error { return nil }, ""},
		{"read-only", func(at *Place) error { return os.Chmod(at.Path, 0o444) }, ""},
		{"writable by the group", func(at *Place) error { return os.Chmod(at.Path, 0o664) }, "host.yaml is writable by users other than"},
		{"folder writable by all users", func(at *Place) error { return os.Chmod(filepath.Dir(at.Path), 0o777) }, "gpurun is writable by users other than"},
		{"owned by another user", func(at *Place) error { at.Owner++; return nil }, "belongs to uid"},
		{"symbolic link", func(at *Place) error {
			if err := os.Rename(at.Path, at.Path+"2"); err != nil {
				return err
			}
			return os.Symlink(at.Path+"2", at.Path)
		}, "host.yaml is a symbolic link"},
		{"folder", func(at *Place) error {
			if err := os.Remove(at.Path); err != nil {
				return err
			}
			return os.Mkdir(at.Path, 0o755)
		}, "host.yaml is not a regular file"},
		{"too large", func(at *Place) error { return os.Truncate(at.Path, maxSize+1) }, "host.yaml is too large: 1048577 bytes (limit 1048576)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			at := place(t)
			write(t, at.Path, "reserve: 3")
			if err := tt.do(&at); err != nil {
				t.Fatal(err)
			}
			other := filepath.Join(t.TempDir(), "other.yaml")
			write(t, other, "reserve: 5")
			t.Setenv(Variable, other) // applies only if the host has no file
			reserve, warnings := look(NewReader(at))
			ignored := strings.Contains(warnings, "ignoring the rules of this host")
			if (tt.want == "") != (reserve == 3) || (tt.want == "") == ignored || !strings.Contains(warnings, tt.want) || reserve == 5 ||
				!strings.Contains(warnings, Variable+" is ignored: this host has "+at.Path) {
				t.Errorf("got reserve %d, warnings %q, want %q", reserve, warnings, tt.want)
			}
		})
	}
}

func TestVariableAppliesOnlyWithoutHostFile(t *testing.T) {
	at := place(t)
	if reserve, warnings := look(NewReader(at)); reserve != 0 || warnings != "" {
		t.Errorf("no file: got reserve %d, warnings %q", reserve, warnings)
	}
	other := filepath.Join(t.TempDir(), "other.yaml")
	t.Setenv(Variable, other)
	if reserve, warnings := look(NewReader(at)); reserve != 0 || !strings.Contains(warnings, "cannot read "+Variable+"="+other+": no such file") {
		t.Errorf("variable names a missing file: got reserve %d, warnings %q", reserve, warnings)
	}
	write(t, other, "reserve: 5")
	if reserve, warnings := look(NewReader(at)); reserve != 5 || warnings != "" {
		t.Errorf("variable names a file: got reserve %d, warnings %q, want 5 and none", reserve, warnings)
	}
	at.Path = filepath.Join(t.TempDir(), "no", "folder", "host.yaml")
	if reserve, warnings := look(NewReader(at)); reserve != 5 || warnings != "" {
		t.Errorf("the host's folder is missing: got reserve %d, warnings %q, want 5 and none", reserve, warnings)
	}
}

func TestChangedRulesAreReread(t *testing.T) {
	at := place(t)
	r := NewReader(at)
	steps := []struct {
		name    string
		do      func()
		reserve int
		want    string // part of the warnings
	}{
		{"no file", func() {}, 0, ""},
		{"file created", func() { write(t, at.Path, "reserve: 1") }, 1, ""},
		{"file unchanged", func() {}, 1, ""},
		{"file changed", func() { write(t, at.Path, "reserve: 2\nfoo: 1") }, 2, `unknown key "foo"`},
		{"file unchanged", func() {}, 2, ""},
		{"file broken", func() { write(t, at.Path, "reserve: [") }, 2, "its previous rules still apply"},
		{"file fixed", func() { write(t, at.Path, "reserve: 3") }, 3, ""},
		{"file empty or half written", func() { write(t, at.Path, "") }, 3, "is empty"},
		{"file complete again", func() { write(t, at.Path, "reserve: 4") }, 4, ""},
		{"mode changed", func() { os.Chmod(at.Path, 0o666) }, 4, "its previous rules still apply"},
		{"file removed", func() { os.Remove(at.Path) }, 0, ""},
	}
	for _, s := range steps {
		s.do()
		reserve, warnings := look(r)
		if reserve != s.reserve || !strings.Contains(warnings, s.want) || s.want == "" && warnings != "" {
			t.Errorf("%s: reserve %d, want %d; %q, want %q", s.name, reserve, s.reserve, warnings, s.want)
		}
	}
}

func TestChangeBehindLinkIsNoticed(t *testing.T) {
	at := place(t)
	file, link := filepath.Join(t.TempDir(), "rules.yaml"), filepath.Join(t.TempDir(), "link.yaml")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	t.Setenv(Variable, link)
	r := NewReader(at)
	for _, want := range []int{1, 20} {
		write(t, file, fmt.Sprintf("reserve: %d", want))
		if reserve, warnings := look(r); reserve != want || warnings != "" {
			t.Errorf("got reserve %d, warnings %q, want %d and none", reserve, warnings, want)
		}
	}
}

// Keys can be the name or number of a user or group. Read resolves them for the given users.
func TestEntriesApplyToTheirUsers(t *testing.T) {
	me, err := user.Current()
	if err != nil {
		t.Skip(err)
	}
	gid, err := user.LookupGroupId(me.Gid)
	if err != nil {
		t.Skip(err)
	}
	at := place(t)
	write(t, at.Path, "users: {"+strings.Join([]string{
		me.Username + ": {max_gpus: 1}", `"@` + gid.Name + `": {max_gpus: 2}`, `"@` + me.Gid + `": {max_gpus: 3}`,
		"4000000: {max_gpus: 4}", `"@nosuchgroup": {max_gpus: 5}`, "nosuchuser: {max_gpus: 6}"}, ", ")+"}")
	r := NewReader(at)
	rules, warnings := r.Read(os.Getuid(), 4000000, os.Getuid())
	want := [][]int{{os.Getuid()}, {os.Getuid()}, {os.Getuid()}, {4000000}, nil, nil}
	for i, e := range rules.Users {
		if !reflect.DeepEqual(e.UIDs, want[i]) {
			t.Errorf("%s means %v, want %v", e.Key, e.UIDs, want[i])
		}
	}
	text := strings.Join(warnings, "\n")
	if !strings.Contains(text, "users: ignoring @nosuchgroup: no such group here") || strings.Contains(text, "@"+gid.Name) ||
		!strings.Contains(text, "users: cannot find the groups of uid 4000000") {
		t.Errorf("warnings: %s", text)
	}
	if again, more := r.Read(); len(more) > 0 || !reflect.DeepEqual(again.Users, rules.Users) {
		t.Errorf("second Read: got warnings %q, users %+v, want no warnings and the same users", more, again.Users)
	}
	if u := rules.User(os.Getuid(), time.Now()); u.MaxGPUs != 1 {
		t.Errorf("max_gpus of uid %s is %d, want 1", strconv.Itoa(os.Getuid()), u.MaxGPUs)
	}
}

// Hours are in the host's time zone, because a user can set TZ.
func TestHoursAreInTheHostsTimeZone(t *testing.T) {
	own := time.Local // as set by TZ when the process started
	time.Local = time.FixedZone("of TZ", 14*60*60)
	t.Cleanup(func() { time.Local = own })
	at := place(t)
	rules, _ := NewReader(at).Read()
	data, err := os.ReadFile("/etc/localtime")
	want := time.UTC
	if err == nil {
		want, err = time.LoadLocationFromTZData("", data)
	}
	if err != nil && !os.IsNotExist(err) {
		t.Skip(err)
	}
	now := time.Now()
	if _, offset := now.In(want).Zone(); offset != func() int { _, o := now.In(rules.At.Location()).Zone(); return o }() {
		t.Errorf("got zone %s, want that of /etc/localtime", rules.At.Location())
	}
}
