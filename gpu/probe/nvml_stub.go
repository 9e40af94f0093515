//go:build !linux || !cgo

package probe

import (
	"fmt"
	"os"
)

// withNVML reports whether this program can load NVML at all.
const withNVML = false

// ChildMain is never called in a program without NVML.
func ChildMain([]string) int {
	fmt.Fprintln(os.Stderr, missingBuild().Text)
	return 1
}
