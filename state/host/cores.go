package host

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxCores is the capacity of a unix.CPUSet.
const maxCores = 1024

// ParseCores parses a list of CPU cores in the kernel's format, "0-3,8".
func ParseCores(list string) (set unix.CPUSet, err error) {
	for _, part := range strings.Split(strings.TrimSpace(list), ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil || from < 0 || to < from || to >= maxCores {
			return set, fmt.Errorf("invalid list of cores %q (try 0-7)", list)
		}
		for i := from; i <= to; i++ {
			set.Set(i)
		}
	}
	return set, nil
}
