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

// reader reads a ledger line by line, in bounded memory whatever its content.
type reader struct {
	path     string
	take     func(state.Fact)
	live     bool // a run may be writing: do not warn about an incomplete last line
	warnings []string
	torn     bool       // the last line has no newline
	host     state.Fact // run fact of the last run in the ledger
	line     int
	found    func(*os.File) // loads an index that covers the first lines; nil for none
	from     int64          // bytes skipped thanks to the index
	offset   int64          // bytes of complete lines so far
	history  *state.History // where facts are applied; see into
	file     int            // index of the ledger's file in the batch
	base     *packed
	each     int // facts after which the records are packed
	facts    int // since then
}

func newReader(path string, take func(state.Fact)) *reader {
	return &reader{path: path, take: take}
}

// tooManyWarnings is how many broken lines a reader reports one by one.
const tooManyWarnings = 20

// read reads every line. It fails only if the ledger cannot be read at all or a newer
// gpurun wrote it; a missing ledger counts as empty.
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
			// A line that lacks only its newline is complete, and would count as soon as
			// the next one follows it. So it counts now.
			err := r.lineOf(text)
			if errors.Is(err, ErrNewer) {
				return fmt.Errorf("%s: %w", r.path, err)
			}
			if err != nil && !r.live {
				r.warn("%s: line %d is incomplete (crash during a write); skipped", r.path, r.line)
			}
			break
		}
		r.offset += int64(len(text)) + 1
		if err := r.lineOf(text); err != nil {
			if errors.Is(err, ErrNewer) {
				return fmt.Errorf("%s: %w", r.path, err)
			}
			if broken++; broken <= tooManyWarnings {
				r.warn("%s: line %d is broken and was skipped: %v", r.path, r.line, err)
			}
		}
	}
	if broken > tooManyWarnings {
		r.warn("%s: %d more broken lines were skipped", r.path, broken-tooManyWarnings)
	}
	return nil
}

// fold applies a fact.
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

// lineOf processes one line.
func (r *reader) lineOf(text []byte) error {
	if len(text) == 0 {
		return nil // the newline that terminated a torn line
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

// decode parses a line as a fact. Unknown kinds are ignored when facts are applied.
func decode(text []byte) (state.Fact, error) {
	f, ok := scan(text)
	if ok && f.Kind != "" {
		return f, nil
	}
	f = state.Fact{}
	if err := json.Unmarshal(text, &f); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return f, fmt.Errorf("invalid JSON at byte %d", syntax.Offset)
		}
		return f, errors.New("a value has the wrong type")
	}
	if f.Kind == "" {
		return f, errors.New("no kind")
	}
	return f, nil
}

// nextLine returns the next line without its newline, truncated to a little more than
// maxLine. whole is false for a last line without newline.
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
