// Package source reads values from job files and the files next to them. It tracks the position of
// every value, walks YAML strictly, parses sizes, durations and other values, and collects Problems
// with a position, a cause and a fix. It is independent of jobs, except for hints about other
// tools' keys.
package source

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"
)

// A Source is one job file as read, and the Report for its problems.
type Source struct {
	Path string // as given
	Real string // absolute, links resolved
	Dir  string // absolute folder of Path
	Data []byte // UTF-8 without byte order mark, lines ending in \n
	Out  *Report

	table bool     // it contains rows, not jobs
	lines [][]byte // with their line breaks; split on first use
}

// Read reads a job file. It never hangs or fills memory, whatever the file is.
func Read(path string, out *Report) *Source {
	out.Note(path)
	data, err := ReadRegular(path)
	if err != nil {
		out.Add(Problem{File: cmp.Or(path, `""`)}.Because(err))
		return nil
	}
	return Given(path, data, out)
}

// Given returns a source with this content, whether or not a file with that name exists.
func Given(path string, data []byte, out *Report) *Source {
	s := &Source{Path: path, Out: out}
	abs, err := filepath.Abs(path)
	if err == nil {
		s.Dir = filepath.Dir(abs)
		s.Real, err = filepath.EvalSymlinks(abs)
	}
	if errors.Is(err, fs.ErrNotExist) {
		var dir string
		dir, err = filepath.EvalSymlinks(s.Dir)
		s.Real = filepath.Join(dir, filepath.Base(abs))
	}
	if err != nil {
		out.Add(Problem{File: path, Text: "cannot resolve its path: " + err.Error()})
		return nil
	}
	if s.Data = s.decode(data); s.Data == nil {
		return nil
	}
	return s
}

// OfRows returns a Source for a file of rows that is named in a job file. It returns nil after a
// problem.
func OfRows(path string, data []byte, out *Report) *Source {
	s := &Source{Path: path, Out: out, table: true}
	if s.Data = s.decode(data); s.Data == nil {
		return nil
	}
	return s
}

// decode strips the byte order mark, replaces \r\n with \n, and refuses data that is empty, is not
// UTF-8, or contains a NUL byte. It returns nil after a problem.
func (s *Source) decode(data []byte) []byte {
	if bytes.HasPrefix(data, []byte{0xff, 0xfe}) || bytes.HasPrefix(data, []byte{0xfe, 0xff}) {
		s.Out.Add(Problem{File: s.Path, Line: 1, Col: 1, Text: "is UTF-16, not UTF-8", Hint: "save it as UTF-8 (iconv -f UTF-16 -t UTF-8)"})
		return nil
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if bytes.IndexByte(data, '\r') >= 0 {
		data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	}
	if !utf8.Valid(data) {
		s.badEncoding(data)
		return nil
	}
	if i := bytes.IndexByte(data, 0); i >= 0 {
		hint := "is it a job file, saved as UTF-8?"
		if s.table {
			hint = "save it as UTF-8 text"
		}
		s.Problem(1+bytes.Count(data[:i], []byte("\n")), 0, hint, "is not a text file: it contains a NUL byte")
		return nil
	}
	if len(bytes.TrimSpace(data)) == 0 {
		hint := "a job file starts with \"jobs:\""
		if s.table {
			hint = ""
		}
		s.Out.Add(Problem{File: s.Path, Text: "is empty", Hint: hint})
		return nil
	}
	return data
}

func (s *Source) badEncoding(data []byte) {
	at := 0
	for at < len(data) {
		r, n := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	line := 1 + bytes.Count(data[:at], []byte("\n"))
	col := 1 + utf8.RuneCount(data[1+bytes.LastIndexByte(data[:at], '\n'):at])
	s.Out.Add(Problem{File: s.Path, Line: line, Col: col, Text: fmt.Sprintf("is not UTF-8: byte 0x%02x", data[at]), Hint: "save it as UTF-8"})
}

// Line returns the text of a 1-based line; "" past the end.
func (s *Source) Line(n int) string {
	lines := s.split()
	if n < 1 || n > len(lines) {
		return ""
	}
	return string(bytes.TrimSuffix(lines[n-1], []byte("\n")))
}

// split returns the lines of the file with their line breaks.
func (s *Source) split() [][]byte {
	if s.lines == nil {
		s.lines = bytes.SplitAfter(s.Data, []byte("\n"))
	}
	return s.lines
}

// Find searches 200 lines for text, beginning at a position. It returns the position of the text, or
// the given position if the text is not there.
func (s *Source) Find(line, col int, text string) (int, int) {
	for n := line; n < line+200 && n > 0; n++ {
		l := s.Line(n)
		from := 0
		if n == line {
			from = byteOffset(l, col)
		}
		if i := strings.Index(l[from:], text); i >= 0 {
			return n, 1 + utf8.RuneCountInString(l[:from+i])
		}
	}
	return line, col
}

// byteOffset returns where the 1-based column col begins in l.
func byteOffset(l string, col int) int {
	for i := range l {
		if col--; col <= 0 {
			return i
		}
	}
	if col <= 1 {
		return len(l)
	}
	return 0
}

// Problem reports a problem at a position in the file.
func (s *Source) Problem(line, col int, hint, format string, args ...any) {
	s.Out.Add(Problem{File: s.Path, Line: line, Col: col, Text: fmt.Sprintf(format, args...), Hint: hint})
}

// Warning reports a warning at a position in the file.
func (s *Source) Warning(line, col int, hint, format string, args ...any) {
	s.Out.Warn(Problem{File: s.Path, Line: line, Col: col, Text: fmt.Sprintf(format, args...), Hint: hint})
}

// Regexp returns a function that compiles an expression on first use, because most commands need
// few of these expressions.
func Regexp(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
