package cli

import (
	"bytes"
	"io"
	"os"
)

// skip seeks to the start of the last lines of a log, if only those are requested. The caller has
// set the offset of f to the start of the attempt's part.
func (c *logCmd) skip(f *os.File) error {
	if c.Lines == 0 {
		return nil
	}
	from, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	at, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	chunk, left := make([]byte, 64<<10), c.Lines
	for end := true; at > from; end = false {
		n := min(at-from, int64(len(chunk)))
		at -= n
		part := chunk[:n]
		if _, err := f.ReadAt(part, at); err != nil {
			return err
		}
		if end {
			part = bytes.TrimSuffix(part, []byte("\n"))
		}
		for len(part) > 0 {
			i := bytes.LastIndexByte(part, '\n')
			if i < 0 {
				break
			}
			if left--; left == 0 {
				_, err := f.Seek(at+int64(i)+1, io.SeekStart)
				return err
			}
			part = part[:i]
		}
	}
	_, err = f.Seek(from, io.SeekStart)
	return err
}
