package slurm

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"gpurun/runner/engine/cluster"
)

// given returns the value of an option in the arguments or the environment of sbatch; "" if not
// given.
func given(args []string, option, variable string) (value string) {
	for _, arg := range args {
		if v, is := strings.CutPrefix(arg, "--"+option+"="); is {
			value = v
		}
	}
	return cmp.Or(value, os.Getenv(variable))
}

// overrides is the flag of a QOS that lets jobs exceed the limit of their partition.
const overrides = "PartitionTimeLimit"

// Limits queries the time limits of the partitions. Slurm accepts a job that exceeds them, but
// never starts it. A QOS (perhaps the user's default) or a reservation may have other limits, which
// only the accounting lists.
func (Dialect) Limits(args []string) (q cluster.Query[string]) {
	if given(args, "time", "") == "" || given(args, "qos", "SBATCH_QOS")+given(args, "reservation", "SBATCH_RESERVATION") != "" ||
		slices.ContainsFunc(args, func(arg string) bool { return len(arg) > 1 && arg[0] == '-' && arg[1] != '-' }) { // a short option, such as -p NAME, may set any of these
		return q
	}
	q.Command = command("sh", "-c", `sinfo -h -a -o '%P|%l'; sacctmgr -n -P show qos format=flags 2>/dev/null | grep -o "$1"; :`, "sinfo", overrides)
	q.Read = func(stdout string) (string, error) { return exceeds(stdout, args), nil }
	return q
}

// exceeds returns a message if the requested time exceeds the longest limit of the partitions that
// the job names, or "".
func exceeds(stdout string, args []string) string {
	asked, err := strconv.Atoi(given(args, "time", ""))
	names, longest, where := strings.Split(given(args, "partition", "SBATCH_PARTITION"), ","), -1, ""
	for line := range strings.Lines(stdout) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), separator)
		name, usual := strings.CutSuffix(name, "*")
		if !slices.Contains(names, name) && (names[0] != "" || !usual) {
			continue
		}
		limit, ok := minutes(text)
		if !ok {
			return ""
		}
		if limit > longest {
			longest, where = limit, name
		}
	}
	if err != nil || longest < 0 || asked <= longest || strings.Contains(stdout, overrides+"\n") {
		return ""
	}
	return fmt.Sprintf("--time=%d (cluster.time, or timeout plus grace plus 2 minutes) exceeds the limit of %d minutes on partition %s; shorten timeout by %dm, or set another cluster.partition (sinfo -o '%%P %%l' lists the limits)",
		asked, longest, where, asked-longest)
}

// minutes parses a limit in sinfo's format: 1-02:03:00, 2:03:00 or 3:00. ok is false if there is no
// limit.
func minutes(limit string) (n int, ok bool) {
	days, rest, has := strings.Cut(limit, "-")
	if !has {
		days, rest = "0", limit
	}
	if strings.Count(rest, ":") == 1 {
		rest = "0:" + rest
	}
	var d, h, m, s int
	read, _ := fmt.Sscanf(days+":"+rest, "%d:%d:%d:%d", &d, &h, &m, &s)
	return (d*24+h)*60 + m, read == 4
}
