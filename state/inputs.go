package state

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// FoldInputs makes one Input that stands for many, where a line of the ledger
// could not hold them: how many, their sizes together, the newest time, and a
// hash of what makes an input another one: path and content, or size and time
// where the content was not hashed.
func FoldInputs(in []Input) Input {
	h := sha256.New()
	all := Input{Folded: len(in)}
	for _, i := range in {
		content := i.Hash
		if content == "" {
			content = fmt.Sprintf("%d %s", i.Size, i.MTime.UTC().Format(time.RFC3339Nano))
		}
		fmt.Fprintf(h, "%s\x00%s\n", i.Path, content)
		all.Size += i.Size
		if i.MTime.After(all.MTime) {
			all.MTime = i.MTime
		}
	}
	if len(in) > 0 {
		all.Path = fmt.Sprintf("%s and %d more", in[0].Path, len(in)-1)
	}
	all.Hash = hex.EncodeToString(h.Sum(nil))
	return all
}
