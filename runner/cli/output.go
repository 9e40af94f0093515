package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"gpurun/runner/terminal"
)

// table prints rows in columns aligned by display width. It never pads or cuts the last column.
func table(w io.Writer, rows [][]string) {
	var widths, own []int // width of each column, and of each cell
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			own = append(own, terminal.Width(cell))
			widths[i] = max(widths[i], own[len(own)-1])
		}
	}
	var b strings.Builder
	for _, row := range rows {
		b.Reset()
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-own[i]+2))
			}
		}
		own = own[len(row):]
		io.WriteString(w, strings.TrimRight(b.String(), " ")+"\n")
	}
}

func printLines(w io.Writer, texts []string) {
	for _, text := range texts {
		fmt.Fprintln(w, text)
	}
}

// writeJSON prints v as one indented document, and writeLine as one line.
func writeJSON(w io.Writer, v any) error { return encode(w, v, "  ") }

func writeLine(w io.Writer, v any) error { return encode(w, v, "") }

// encode prints v as JSON. It escapes characters that a terminal interprets or does not show,
// because names and log lines may contain them.
func encode(w io.Writer, v any, indent string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", indent)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(escapeUnseen(b.Bytes()))
	return err
}

// escapeUnseen escapes control and format characters in JSON, where they occur only in strings. It
// skips characters below the space: the encoder has already escaped those in strings, and the only
// others are the line breaks between fields.
func escapeUnseen(doc []byte) []byte {
	unseen := func(r rune) bool {
		return r > '~' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp))
	}
	if !bytes.ContainsFunc(doc, unseen) {
		return doc
	}
	var out []byte
	for _, r := range string(doc) {
		if !unseen(r) {
			out = utf8.AppendRune(out, r)
			continue
		}
		for _, u := range utf16.Encode([]rune{r}) {
			out = fmt.Appendf(out, `\u%04x`, u)
		}
	}
	return out
}

// stdout is the standard output. Its pipe may be shared, and another process may make it
// non-blocking at any time. Package os checks that only once, so output would be lost while the
// pipe is full.
type stdout struct{}

func (stdout) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var m int
		m, err = os.Stdout.Write(b[n:])
		if n += m; errors.Is(err, unix.EAGAIN) {
			if _, err = unix.Poll([]unix.PollFd{{Fd: int32(unix.Stdout), Events: unix.POLLOUT}}, -1); errors.Is(err, unix.EINTR) {
				err = nil
			}
		}
	}
	return n, err
}
