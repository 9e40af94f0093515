package web

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const plainText = "text/plain; charset=utf-8"

// log sends an attempt's part of a log, or a range of it.
func (c *call) log(w http.ResponseWriter) error {
	f, _, err := c.edition()
	if err != nil {
		return err
	}
	at, err := f.batch.Log(c.PathValue("uni_id"))
	if err != nil {
		return err
	}
	file, err := open(at.Path)
	if err != nil {
		text := err.Error()
		if errors.Is(err, fs.ErrNotExist) {
			text = at.Path + " is gone"
		}
		return &Failure{Status: http.StatusGone, Code: "state", Text: text}
	}
	defer file.Close()
	end := at.To
	if fi, err := file.Stat(); end < 0 || err == nil && fi.Size() < end {
		if err != nil {
			return err
		}
		end = fi.Size()
	}
	w.Header().Set("Content-Type", plainText)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Gpurun-Over", fmt.Sprint(at.Over))
	patient := &slowly{w, http.NewResponseController(w), c.server.Limits.Request}
	http.ServeContent(patient, c.Request, "", time.Time{}, io.NewSectionReader(file, at.From, max(0, end-at.From)))
	return nil
}

// slowly gives a client time to take each part of a long answer.
type slowly struct {
	http.ResponseWriter
	c     *http.ResponseController
	limit time.Duration
}

func (s *slowly) Write(b []byte) (int, error) {
	_ = s.c.SetWriteDeadline(time.Now().Add(s.limit)) // a recorder in tests has none
	return s.ResponseWriter.Write(b)
}

// open opens a file of this user's that a ledger of his names. Its folder is the root: a
// link in it leads nowhere else.
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
