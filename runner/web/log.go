package web

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"gpurun/state/schema"
)

const plainText = "text/plain; charset=utf-8"

// part opens the part of a log that an attempt wrote.
func (c *call) part() (*io.SectionReader, *os.File, schema.LogPart, error) {
	f, _, err := c.edition()
	if err != nil {
		return nil, nil, schema.LogPart{}, err
	}
	at, err := f.batch.Log(c.PathValue("uni_id"))
	if err != nil {
		return nil, nil, at, err
	}
	file, err := open(at.Path)
	if err != nil {
		text := err.Error()
		if errors.Is(err, fs.ErrNotExist) {
			text = at.Path + " is gone"
		}
		return nil, nil, at, &Failure{Status: http.StatusGone, Code: "state", Text: text}
	}
	fi, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, nil, at, err
	}
	if at.To < 0 || fi.Size() < at.To {
		at.To = fi.Size()
	}
	if at.To < at.From { // the attempt has truncated the log
		at.From = 0
	}
	return io.NewSectionReader(file, at.From, max(0, at.To-at.From)), file, at, nil
}

// log sends an attempt's part of a log, or a range of it.
func (c *call) log(w http.ResponseWriter) error {
	part, file, at, err := c.part()
	if err != nil {
		return err
	}
	defer file.Close()
	w.Header().Set("Content-Type", plainText)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Gpurun-Over", fmt.Sprint(at.Over))
	w.Header().Set("Gpurun-Ticket", c.server.ticket(c.Request))
	patient := &patientWriter{w, http.NewResponseController(w), c.server.Limits.Request}
	http.ServeContent(patient, c.Request, "", time.Time{}, part)
	return nil
}

// maxMatches is the maximum number of matches whose positions are returned: the last ones. Earlier
// matches are only counted.
const maxMatches = 1000

// search finds the lines of an attempt's log that contain a string, ignoring case.
func (c *call) search() (any, error) {
	part, file, _, err := c.part()
	if err != nil {
		return nil, err
	}
	defer file.Close()
	doc, text := schema.Matches{Head: now(), At: []int64{}}, bytes.ToLower([]byte(c.text("text")))
	r := bufio.NewReaderSize(part, 64<<10)
	for at, begin, found := int64(0), int64(0), len(text) == 0; err == nil && c.Context().Err() == nil; {
		var line []byte
		line, err = r.ReadSlice('\n')
		if !found && bytes.Contains(bytes.ToLower(line), text) {
			doc.Count, doc.At, found = doc.Count+1, append(doc.At, begin), true
		}
		if at += int64(len(line)); errors.Is(err, bufio.ErrBufferFull) {
			err = nil // the line is longer than the buffer
		} else {
			begin, found = at, len(text) == 0
		}
		if len(doc.At) == 2*maxMatches {
			doc.At = append(doc.At[:0], doc.At[maxMatches:]...)
		}
	}
	doc.At = doc.At[max(0, len(doc.At)-maxMatches):]
	return doc, nil
}

// patientWriter extends the client's deadline for each part of a long answer.
type patientWriter struct {
	http.ResponseWriter
	c     *http.ResponseController
	limit time.Duration
}

func (s *patientWriter) Write(b []byte) (int, error) {
	_ = s.c.SetWriteDeadline(time.Now().Add(s.limit)) // a ResponseRecorder has no deadline
	return s.ResponseWriter.Write(b)
}

// open opens one of this user's files that a ledger names. It treats the file's folder as the root,
// so that links in the folder cannot lead out of it.
func open(path string) (*os.File, error) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(filepath.Base(path), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err == nil && int(fi.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
		err = fmt.Errorf("%s belongs to another user", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
