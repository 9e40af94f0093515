package disk

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"gpurun/state"
	"gpurun/state/host"
)

// reader reads a ledger line by line, in bounded memory, whatever is in it.
type reader struct {
	path     string
	take     func(state.Fact)
	live     bool // somebody may be writing: an unfinished last line is no news
	warnings []string
	torn     bool       // the last line has no newline
	host     state.Fact // of the last run that the ledger knows
	line     int
	found    func(*os.File) // looks for what the first lines come to already; nil for none
	from     int64          // bytes that were not read, thanks to that
	offset   int64          // bytes of the whole lines until now
	history  *state.History // what the ledger is folded into; see into
	file     int            // its index among those of the batch
	base     *packed
	each     int // facts after which the records are packed
	facts    int // since then
}

func newReader(path string, take func(state.Fact)) *reader {
	return &reader{path: path, take: take}
}

// tooManyWarnings is where a reader stops naming broken lines one by one.
const tooManyWarnings = 20

// read takes every line. Only a ledger that cannot be read at all, or that a
// newer gpurun wrote, is an error; one that is not there is an empty one.
func (r *reader) read() error {
	f, err := host.OpenOwn(r.path, os.O_RDONLY, 0)
	if isNotExist(err) {
		return nil
	}
	if err != nil {
		return &FolderError{filepath.Dir(r.path), cause(err)}
	}
	defer f.Close()
	if r.found != nil {
		r.found(f)
	}
	in := bufio.NewReaderSize(f, 256<<10)
	broken := 0
	for {
		text, whole, err := nextLine(in)
		if err != nil && !errors.Is(err, io.EOF) {
			return &FolderError{filepath.Dir(r.path), cause(err)}
		}
		if len(text) == 0 && !whole {
			break
		}
		r.line++
		if !whole {
			r.torn = true
			// One that lacks its newline alone says all that it was to say, and will
			// count once the next line has ended it: it counts now.
			err := r.lineOf(text)
			if errors.Is(err, ErrNewer) {
				return fmt.Errorf("%s: %w", r.path, err)
			}
			if err != nil && !r.live {
				r.warn("%s: line %d is unfinished, from a crash in the middle of a write, and is passed over", r.path, r.line)
			}
			break
		}
		r.offset += int64(len(text)) + 1
		if err := r.lineOf(text); err != nil {
			if errors.Is(err, ErrNewer) {
				return fmt.Errorf("%s: %w", r.path, err)
			}
			if broken++; broken <= tooManyWarnings {
				r.warn("%s: line %d is broken and passed over: %v", r.path, r.line, err)
			}
		}
	}
	if broken > tooManyWarnings {
		r.warn("%s: %d more broken lines are passed over", r.path, broken-tooManyWarnings)
	}
	return nil
}

// fold takes over a fact.
func (r *reader) fold(f state.Fact) {
	r.take(f)
	if r.facts++; r.base != nil && r.facts >= r.each {
		r.settle()
		r.facts = 0
	}
}

func (r *reader) warn(format string, args ...any) {
	r.warnings = append(r.warnings, fmt.Sprintf(format, args...))
}

// lineOf takes one whole line.
func (r *reader) lineOf(text []byte) error {
	if len(text) == 0 {
		return nil // the newline that ended a torn line
	}
	if len(text) > maxLine {
		return errors.New("longer than 64 KiB")
	}
	f, err := decode(text)
	if err != nil {
		return err
	}
	if f.Kind == state.KindRun {
		if f.Version > state.Version {
			return ErrNewer
		}
		r.host = f
	}
	r.fold(f)
	return nil
}

// decode reads a line as a fact. Kinds that are not known are passed over by
// whoever folds them.
func decode(text []byte) (state.Fact, error) {
	f, ok := scan(text)
	if ok && f.Kind != "" {
		return f, nil
	}
	f = state.Fact{}
	if err := json.Unmarshal(text, &f); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return f, fmt.Errorf("no JSON at byte %d", syntax.Offset)
		}
		return f, errors.New("its values are not of the ledger's kind")
	}
	if f.Kind == "" {
		return f, errors.New("it has no kind")
	}
	return f, nil
}

// nextLine is the next line without its newline, cut to a little over what a line
// may have. whole is false for a last line without newline.
func nextLine(in *bufio.Reader) (text []byte, whole bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if err == nil && text == nil {
			return part[:len(part)-1], true, nil
		}
		if len(text) <= maxLine {
			text = append(text, part...)
		}
		switch {
		case err == nil:
			if n := len(text); n > 0 && text[n-1] == '\n' {
				text = text[:n-1]
			}
			return text, true, nil
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		default:
			return text, false, err
		}
	}
}
