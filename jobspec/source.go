package jobspec

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// maxFile is the maximum size of a job file, four times that of a file with a hundred
// thousand jobs written one by one.
const maxFile = 64 << 20

// A source is one job file as read, and where its problems go.
type source struct {
	path string // as given
	real string // absolute, links resolved
	dir  string // absolute folder of path
	data []byte // UTF-8 without byte order mark, lines ending in \n
	out  *report

	starts []int // offset of each line, computed on first use
}

// readSource reads a job file. Whatever it is, it neither hangs nor fills memory.
func readSource(path string, out *report) *source {
	s := &source{path: path, out: out}
	data, err := readRegular(path)
	if err != nil {
		p := Problem{File: cmp.Or(path, `""`), Text: err.Error()}
		var hinted *readError
		if errors.As(err, &hinted) {
			p.Text, p.Hint = hinted.text, hinted.hint
		}
		out.add(p)
		return nil
	}
	abs, err := filepath.Abs(path)
	if err == nil {
		s.dir = filepath.Dir(abs)
		s.real, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		out.add(Problem{File: path, Text: "cannot resolve its path: " + err.Error()})
		return nil
	}
	if s.data = s.decode(data); s.data == nil {
		return nil
	}
	return s
}

// A readError is a failure to read, with a hint.
type readError struct{ text, hint string }

func (e *readError) Error() string { return e.text }

// readRegular reads a regular file of at most maxFile bytes. It opens the file without
// blocking, because a FIFO without a writer would hang forever.
func readRegular(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, openError(err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, openError(err)
	case info.IsDir():
		return nil, &readError{"is a folder, not a job file", "name the job file in it"}
	case !info.Mode().IsRegular():
		return nil, &readError{fmt.Sprintf("is not a regular file (%s)", info.Mode().Type()), "write the jobs to a file: the ledger goes beside it"}
	case info.Size() > maxFile:
		return nil, tooLarge(info.Size())
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, openError(err)
	}
	if len(data) > maxFile {
		return nil, tooLarge(int64(len(data)))
	}
	return data, nil
}

func tooLarge(size int64) error {
	return &readError{fmt.Sprintf("is %d MiB; the limit for job files is %d MiB", size>>20, maxFile>>20), "is it a job file? a matrix expresses a million jobs in a few lines"}
}

func openError(err error) error {
	var pe *fs.PathError
	path := ""
	if errors.As(err, &pe) {
		path, err = pe.Path, pe.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &readError{"no such file", nearFile(path)}
	case errors.Is(err, fs.ErrPermission):
		return &readError{"permission denied", "chmod +r it"}
	}
	return &readError{"cannot be read: " + err.Error(), ""}
}

// nearFile asks whether a file beside path was meant, or returns "".
func nearFile(path string) string {
	if path == "" {
		return "the name is empty: is a shell variable unset?"
	}
	dir, base := filepath.Split(path)
	f, err := os.Open(cmp.Or(dir, "."))
	if err != nil {
		return ""
	}
	defer f.Close()
	var near []string
	names, _ := f.Readdirnames(10_000)
	for _, n := range names {
		if slices.Contains([]string{".yaml", ".yml", ".txt", ".json"}, filepath.Ext(n)) {
			near = append(near, n)
		}
	}
	slices.Sort(near)
	if n := nearest(base, near); n != "" {
		return fmt.Sprintf("did you mean %s?", dir+n)
	}
	return ""
}

// decode strips the byte order mark and carriage returns, and refuses data that is
// empty or not UTF-8. It returns nil after a problem.
func (s *source) decode(data []byte) []byte {
	if bytes.HasPrefix(data, []byte{0xff, 0xfe}) || bytes.HasPrefix(data, []byte{0xfe, 0xff}) {
		s.out.add(Problem{File: s.path, Line: 1, Col: 1, Text: "is UTF-16, not UTF-8", Hint: "save it as UTF-8 (iconv -f UTF-16 -t UTF-8)"})
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
		s.problem(1+bytes.Count(data[:i], []byte("\n")), 0, "is it a job file, saved as UTF-8?", "is not a text file: it contains a NUL byte")
		return nil
	}
	if len(bytes.TrimSpace(data)) == 0 {
		s.out.add(Problem{File: s.path, Text: "is empty", Hint: "a job file starts with \"jobs:\""})
		return nil
	}
	return data
}

func (s *source) badEncoding(data []byte) {
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
	s.out.add(Problem{File: s.path, Line: line, Col: col, Text: fmt.Sprintf("is not UTF-8: byte 0x%02x", data[at]), Hint: "save it as UTF-8"})
}

// line returns the text of a 1-based line, "" past the end.
func (s *source) line(n int) string {
	if s.starts == nil {
		s.starts = []int{0}
		for i, c := range s.data {
			if c == '\n' {
				s.starts = append(s.starts, i+1)
			}
		}
	}
	if n < 1 || n > len(s.starts) {
		return ""
	}
	from, to := s.starts[n-1], len(s.data)
	if n < len(s.starts) {
		to = s.starts[n] - 1
	}
	return string(s.data[from:to])
}

// find returns the position of text at or shortly after a position, or that position.
func (s *source) find(line, col int, text string) (int, int) {
	for n := line; n < line+200 && n > 0; n++ {
		l := s.line(n)
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

// problem reports a problem at a position of the file.
func (s *source) problem(line, col int, hint, format string, args ...any) {
	s.out.add(Problem{File: s.path, Line: line, Col: col, Text: fmt.Sprintf(format, args...), Hint: hint})
}

func (s *source) warning(line, col int, hint, format string, args ...any) {
	s.out.warn(Problem{File: s.path, Line: line, Col: col, Text: fmt.Sprintf(format, args...), Hint: hint})
}
