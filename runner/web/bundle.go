package web

import (
	"bytes"
	"compress/gzip"
	"embed"
	"net"
	"net/http"
	"path"
	"strings"
	"sync"
)

// The page, built by make web.
//
//go:embed bundle
var files embed.FS

// bundle serves the page. It contains no user data and needs no token.
func bundle() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Path[1:]
		if host, port, _ := net.SplitHostPort(r.Host); name == "" && strings.EqualFold(host, "localhost") && r.TLS == nil {
			if at, ok := localAddr(r).(*net.TCPAddr); ok { // "localhost" may be ::1, where another user may listen on the same port
				http.Redirect(w, r, "http://"+net.JoinHostPort(at.IP.String(), port)+"/", http.StatusTemporaryRedirect)
				return
			}
		}
		if name == "" {
			name = "page.html"
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			fail(w, &Failure{Status: http.StatusMethodNotAllowed, Code: "usage", Text: r.Method + " is not allowed for " + r.URL.Path})
			return
		}
		b, err := files.ReadFile(path.Join("bundle", path.Base(name)))
		if err != nil || path.Base(name) != name {
			fail(w, notFound("no such page: "+r.URL.Path))
			return
		}
		w.Header().Set("Content-Type", types[path.Ext(name)])
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("Vary", "Accept-Encoding")
		if acceptsGzip(r) {
			w.Header().Set("Content-Encoding", "gzip")
			b = packed()[name]
		}
		_, _ = w.Write(b) // the client may have disconnected
	})
}

// packed returns the page's files, compressed.
var packed = sync.OnceValue(func() map[string][]byte {
	all := map[string][]byte{}
	entries, _ := files.ReadDir("bundle")
	for _, e := range entries {
		b, _ := files.ReadFile(path.Join("bundle", e.Name()))
		all[e.Name()] = gzipped(b, gzip.BestCompression)
	}
	return all
})

func acceptsGzip(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
}

func gzipped(b []byte, level int) []byte {
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, level)
	_, _ = z.Write(b)
	_ = z.Close()
	return out.Bytes()
}

// types are media types by file extension. They are fixed, because the system's table may differ.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
}
