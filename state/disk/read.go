package disk

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	fastjson "github.com/goccy/go-json"

	"gpurun/state"
	"gpurun/state/host"
)

// A reader reads a ledger line by line, in bounded memory whatever its content.
type reader struct {
	path string
	live bool // a run may be writing: do not warn about an incomplete last line

	covered            // what has been read
	from    int64      // bytes skipped thanks to an index
	torn    bool       // the last line has no newline
	fact    state.Fact // the current one
}

// covered is what a reader knows of the lines up to some point, besides the past.
type covered struct {
	Offset   int64 // bytes of complete lines
	Line     int
	Run      state.Fact // the last one
	Over     state.Fact // how that ended
	Warnings []string
}

func newReader(path string) *reader { return &reader{path: path} }

// tooManyWarnings is how many broken lines a reader reports one by one.
const tooManyWarnings = 20

// open opens the ledger; nil if there is none.
func (r *reader) open() (*os.File, error) {
	f, err := host.OpenOwn(r.path, os.O_RDONLY, 0)
	if isNotExist(err) {
		return nil, nil
	}
	return f, in(filepath.Dir(r.path), err)
}

// read passes each fact from the current offset on to take, with the offset of its
// line. The fact is valid until take returns. It fails only if the ledger cannot be read
// at all or a newer gpurun wrote it.
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
		// A line that lacks only its newline is complete, and would count as soon as
		// the next one follows it. So it counts now.
		switch err := r.line(text, take); {
		case errors.Is(err, ErrNewer):
			return fmt.Errorf("%s: %w", r.path, err)
		case err != nil && whole:
			if broken++; broken <= tooManyWarnings {
				r.warn("%s: line %d is broken and was skipped: %v", r.path, r.Line, err)
			}
		case err != nil && !r.live:
			r.warn("%s: line %d is incomplete (crash during a write); skipped", r.path, r.Line)
		}
		if r.torn {
			break
		}
		r.Offset += size
	}
	if broken > tooManyWarnings {
		r.warn("%s: %d more broken lines were skipped", r.path, broken-tooManyWarnings)
	}
	return nil
}

func (r *reader) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// line processes the line at the current offset.
func (r *reader) line(text []byte, take func(*state.Fact, int64)) error {
	if len(text) == 0 {
		return nil // the newline that terminated a torn line
	}
	if err := decode(text, &r.fact); err != nil {
		return err
	}
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

// readable returns an ErrNewer if a run of a later format wrote the lines that follow.
func readable(f *state.Fact) error {
	if f.Version <= state.Version {
		return nil
	}
	return fmt.Errorf("%w: version %d, by gpurun %s; this gpurun reads up to version %d (use gpurun %[3]s or later)", ErrNewer, f.Version, cmp.Or(f.Gpurun, "of unknown version"), state.Version)
}

// decode parses a line. Unknown kinds are ignored when facts are applied.
func decode(text []byte, f *state.Fact) error {
	if len(text) > maxLine {
		return errors.New("longer than 64 KiB")
	}
	*f = state.Fact{}
	if fastjson.Unmarshal(text, f) != nil { // encoding/json decides, and knows where the mistake is
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

// nextLine returns the next line without its newline, truncated to a little more than
// maxLine, and how many bytes it takes. whole is false for a last line without newline.
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

// lineAt decodes the line at an offset; ok is false if somebody has changed it.
func lineAt(f io.ReaderAt, at int64) (fact state.Fact, ok bool) {
	in := bufio.NewReaderSize(io.NewSectionReader(f, at, maxLine+1), 1<<10)
	text, _, _, err := nextLine(in)
	return fact, (err == nil || errors.Is(err, io.EOF)) && decode(text, &fact) == nil
}

// A Follower reads a ledger as a run appends to it.
type Follower struct{ reader }

// Follow starts at the current end of the ledger in a batch's folder.
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

// FromStart starts at the beginning of that ledger.
func FromStart(dir string) *Follower {
	return &Follower{reader{path: filepath.Join(dir, ledgerName), live: true}}
}

// Next passes the facts added since the last call to take, each with the number of its
// line. An incomplete last line is left for the next call; broken lines are skipped. The
// error is an ErrNewer; a ledger that cannot be opened has no facts.
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
