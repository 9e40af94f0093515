package disk

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	fastjson "github.com/goccy/go-json"

	"gpurun/state"
	"gpurun/state/host"
)

// A reader reads a ledger line by line, in bounded memory whatever the ledger contains.
type reader struct {
	path string
	live bool // a run may be writing, so an incomplete last line is normal

	covered            // the part read so far
	from    int64      // bytes skipped because of an index
	torn    bool       // the last line has no newline
	fact    state.Fact // the current fact
}

// covered summarizes the first lines of a ledger. The entries of keys are kept separately.
type covered struct {
	Offset   int64 // bytes of complete lines
	Line     int
	Run      state.Fact // the last run
	Over     state.Fact // how that run ended
	Warnings []string
}

func newReader(path string) *reader { return &reader{path: path} }

// tooManyWarnings is how many broken lines a reader reports individually.
const tooManyWarnings = 20

// open opens the ledger, or returns nil if there is none.
func (r *reader) open() (*os.File, error) {
	f, err := host.OpenOwn(r.path, os.O_RDONLY, 0)
	if isNotExist(err) {
		return nil, nil
	}
	return f, in(filepath.Dir(r.path), err)
}

// read calls take with each fact after the current offset, and the offset of its line. The fact is
// valid until take returns. read fails only if the ledger is unreadable or was written by a newer
// gpurun.
func (r *reader) read(f *os.File, take func(f *state.Fact, at int64)) error {
	if _, err := f.Seek(r.Offset, io.SeekStart); err != nil {
		return in(filepath.Dir(r.path), err)
	}
	lines := bufio.NewReaderSize(f, 256<<10)
	broken := 0
	for {
		text, size, whole, err := nextLine(lines)
		if err != nil && !errors.Is(err, io.EOF) {
			return in(filepath.Dir(r.path), err)
		}
		if size == 0 {
			break
		}
		r.Line++
		r.torn = !whole
		// A line that lacks only its newline is complete, and becomes valid once the next one
		// follows. Treat it as valid now.
		switch err := r.line(text, take); {
		case errors.Is(err, ErrNewer):
			return fmt.Errorf("%s: %w", r.path, err)
		case err != nil && whole:
			if broken++; broken <= tooManyWarnings {
				r.warn("%s: skipped broken line %d: %v", r.path, r.Line, err)
			}
		case err != nil && !r.live:
			r.warn("%s: skipped incomplete line %d (crash during a write)", r.path, r.Line)
		}
		if r.torn {
			break
		}
		r.Offset += size
	}
	if broken > tooManyWarnings {
		r.warn("%s: skipped %d more broken lines", r.path, broken-tooManyWarnings)
	}
	return nil
}

func (r *reader) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// line processes the line at the current offset.
func (r *reader) line(text []byte, take func(*state.Fact, int64)) error {
	if len(text) == 0 {
		return nil // the newline that terminates a torn line
	}
	if err := decode(text, &r.fact); err != nil {
		return err
	}
	rebase(&r.fact, filepath.Dir(r.path))
	if r.fact.Kind == state.KindRun {
		if err := readable(&r.fact); err != nil {
			return err
		}
		r.Run, r.Over = r.fact, state.Fact{}
	}
	if r.fact.Kind == state.KindOver {
		r.Over = r.fact
	}
	take(&r.fact, r.Offset)
	return nil
}

// readable returns an ErrNewer if a run with a newer format wrote the lines that follow.
func readable(f *state.Fact) error {
	if f.Version <= state.Version {
		return nil
	}
	by, fix := "", "update gpurun"
	if f.Gpurun != "" {
		by, fix = ", by gpurun "+f.Gpurun, "use gpurun "+f.Gpurun+" or later"
	}
	return fmt.Errorf("%w: version %d%s; this gpurun reads up to version %d (%s)", ErrNewer, f.Version, by, state.Version, fix)
}

// decode parses a line. Facts of unknown kinds are ignored when they are applied.
func decode(text []byte, f *state.Fact) error {
	if len(text) > maxLine {
		return errors.New("longer than 64 KiB")
	}
	*f = state.Fact{}
	if fastjson.Unmarshal(text, f) != nil { // encoding/json decides whether the line is valid, and reports the position of a mistake
		*f = state.Fact{}
		if err := json.Unmarshal(text, f); err != nil {
			var syntax *json.SyntaxError
			if errors.As(err, &syntax) {
				return fmt.Errorf("invalid JSON at byte %d", syntax.Offset)
			}
			return errors.New("a value has the wrong type")
		}
	}
	if f.Kind == "" {
		return errors.New("no kind")
	}
	inPaths(f, host.Exact)
	return nil
}

// nextLine returns the next line without its newline, truncated to slightly more than maxLine, and
// the line's full size. whole is false if the last line has no newline.
func nextLine(in *bufio.Reader) (text []byte, size int64, whole bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		size += int64(len(part))
		if err == nil && text == nil {
			return part[:len(part)-1], size, true, nil
		}
		if len(text) <= maxLine {
			text = append(text, part...)
		}
		switch {
		case err == nil:
			return bytes.TrimSuffix(text, []byte("\n")), size, true, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return text, size, false, err
		}
	}
}

// rebase corrects the paths of logs in a batch's folder, because the folder may have been moved or
// copied since.
func rebase(f *state.Fact, dir string) {
	if f.Log == "" && f.Stderr == "" || f.From != "" { // only starts have paths
		return
	}
	tail := string(filepath.Separator) + filepath.Base(dir)
	if parent := filepath.Dir(dir); filepath.Base(parent) == hidden {
		tail = string(filepath.Separator) + hidden + tail
	}
	tail += string(filepath.Separator) + logsName + string(filepath.Separator)
	for _, path := range []*string{&f.Log, &f.Stderr} {
		if i := strings.LastIndex(*path, tail); i >= 0 {
			*path = filepath.Join(dir, logsName, (*path)[i+len(tail):])
		}
	}
}

// lineAt decodes the line at an offset of a ledger. ok is false if the line is invalid because someone
// has changed it.
func lineAt(f *os.File, at int64) (fact state.Fact, ok bool) {
	in := bufio.NewReaderSize(io.NewSectionReader(f, at, maxLine+1), 1<<10)
	text, _, _, err := nextLine(in)
	ok = (err == nil || errors.Is(err, io.EOF)) && decode(text, &fact) == nil
	rebase(&fact, filepath.Dir(f.Name()))
	return fact, ok
}

// A Follower reads a ledger while a run appends to it.
type Follower struct{ reader }

// Follow returns a Follower that starts at the current end of the ledger in a batch's folder.
func Follow(dir string) *Follower {
	r := FromStart(dir)
	f, err := r.open()
	if f == nil || err != nil {
		return r
	}
	defer f.Close()
	for lines := bufio.NewReaderSize(f, 256<<10); ; r.Line++ {
		_, size, whole, _ := nextLine(lines)
		if !whole {
			return r
		}
		r.Offset += size
	}
}

// FromStart returns a Follower that starts at the beginning of the ledger in a batch's folder.
func FromStart(dir string) *Follower {
	return &Follower{reader{path: filepath.Join(dir, ledgerName), live: true}}
}

// Next calls take with each fact added since the last call of Next, and its line number. It leaves an
// incomplete last line for the next call, and skips broken lines. The only error it returns is
// ErrNewer; a ledger that cannot be opened counts as empty.
func (r *Follower) Next(take func(seq int64, fact state.Fact)) error {
	f, err := r.open()
	if f == nil || err != nil {
		return nil
	}
	defer f.Close()
	err = r.read(f, func(fact *state.Fact, _ int64) {
		if !r.torn {
			take(int64(r.Line), *fact)
		}
	})
	if r.torn {
		r.Line, r.torn = r.Line-1, false
	}
	if !errors.Is(err, ErrNewer) {
		return nil
	}
	return err
}
