package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// builtEdges makes a folder in which ninja has n edges and nothing to do. Its log
// is written here as ninja would (format 5), which saves minutes; where another
// version of ninja does not take it, ninja builds the edges itself.
func builtEdges(dir string, n int) error {
	var edges, log strings.Builder
	edges.WriteString("rule t\n command = touch $out\n")
	log.WriteString("# ninja log v5\n")
	if err := os.MkdirAll(filepath.Join(dir, "o"), 0o777); err != nil {
		return err
	}
	for i := range n {
		out := fmt.Sprintf("o/j%d", i)
		if err := write(dir, out, ""); err != nil {
			return err
		}
		fi, err := os.Stat(filepath.Join(dir, out))
		if err != nil {
			return err
		}
		fmt.Fprintf(&edges, "build %s: t\n", out)
		fmt.Fprintf(&log, "0\t1\t%d\t%s\t%x\n", fi.ModTime().UnixNano(), out, murmur64a([]byte("touch "+out)))
	}
	if err := write(dir, "build.ninja", edges.String()); err != nil {
		return err
	}
	if err := write(dir, ".ninja_log", log.String()); err != nil {
		return err
	}
	c := command{dir: dir, argv: []string{"sh", "-c", "ninja -n | grep -q 'no work to do'"}}
	if _, err := c.measure(); err == nil {
		return nil
	}
	if err := os.Remove(filepath.Join(dir, ".ninja_log")); err != nil {
		return err
	}
	_, err := command{dir: dir, argv: []string{"ninja", "-j2"}}.measure()
	return err
}

// murmur64a is the hash by which ninja tells whether a command has changed
// (MurmurHash64A of Austin Appleby, with ninja's seed).
func murmur64a(b []byte) uint64 {
	const (
		mul   = 0xc6a4a7935bd1e995
		shift = 47
	)
	h := uint64(0xDECAFBADDECAFBAD) ^ uint64(len(b))*mul
	for ; len(b) >= 8; b = b[8:] {
		k := binary.LittleEndian.Uint64(b) * mul
		h = (h ^ (k^k>>shift)*mul) * mul
	}
	if len(b) > 0 {
		var tail [8]byte
		copy(tail[:], bytes.Clone(b))
		h = (h ^ binary.LittleEndian.Uint64(tail[:])) * mul
	}
	h ^= h >> shift
	h *= mul
	return h ^ h>>shift
}
