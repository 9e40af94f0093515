package web

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Tokens authenticate clients. The Control token includes the right to read.
type Tokens struct{ Read, Control string }

// maxBody is the largest request body in bytes.
const maxBody = 1 << 20

// csp allows the page's own scripts and styles, and nothing from other origins.
const csp = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// headers are sent with every answer.
var headers = [][2]string{
	{"Content-Security-Policy", csp},
	{"X-Content-Type-Options", "nosniff"},
	{"Referrer-Policy", "no-referrer"},
	{"Cross-Origin-Opener-Policy", "same-origin"},
	{"Cross-Origin-Resource-Policy", "same-origin"},
	{"X-Frame-Options", "DENY"},
}

// guard rejects requests from pages of other origins, and requests with a foreign Host header, which
// another site's page can send after DNS rebinding.
func (s *Server) guard(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				s.report(p)
				panic(http.ErrAbortHandler)
			}
		}()
		for _, h := range headers {
			w.Header().Set(h[0], h[1])
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		deadline := time.Now().Add(s.Limits.Request)
		c := http.NewResponseController(w)
		_, _ = c.SetReadDeadline(deadline), c.SetWriteDeadline(deadline) // a ResponseRecorder has no deadline
		switch {
		case !s.isOwnHost(r.Host, r):
			fail(w, &Failure{Status: http.StatusForbidden, Code: "host", Text: fmt.Sprintf("this server's name is not %q", r.Host), Hint: "open http://localhost:PORT, or run gpurun web --listen with that name"})
		case !s.sameOrigin(r):
			fail(w, &Failure{Status: http.StatusForbidden, Code: "origin", Text: "cross-site requests are not allowed"})
		case path.Clean(r.URL.Path) != r.URL.Path:
			fail(w, notFound("no such path: "+r.URL.Path))
		default:
			h.ServeHTTP(w, r)
		}
	})
}

// isOwnHost reports whether the host of a request is this server, on any port, since the port may
// be forwarded. For an address other than loopback, the IP address itself is accepted too, because
// DNS rebinding needs a name.
func (s *Server) isOwnHost(host string, r *http.Request) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	if name == "localhost" || name == "127.0.0.1" || name == "::1" || slices.Contains(s.Names, name) {
		return true
	}
	tcp, ok := localAddr(r).(*net.TCPAddr)
	ip := net.ParseIP(name)
	return ok && ip != nil && len(s.Names) > 0 && tcp.IP.Equal(ip)
}

// sameOrigin reports whether a request comes from this server's page or from no page.
func (s *Server) sameOrigin(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && strings.EqualFold(u.Host, r.Host)
}

// right returns the rights of a request's token on this server.
func (s *Server) right(r *http.Request) Right {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case !ok && r.URL.Query().Has("ticket") && same(r.URL.Query().Get("ticket"), s.ticket(r)):
		return Read
	case !ok:
		return None
	case s.hasToken(s.Tokens.Control, token):
		return max(Read, s.Allow)
	case s.hasToken(s.Tokens.Read, token):
		return Read
	}
	return None
}

// ticket returns a token that permits only reading the request's path on this server. It is for
// links, because a browser sends no Authorization header when it follows one.
func (s *Server) ticket(r *http.Request) string {
	return hex.EncodeToString(mac(s.Tokens.Read, "ticket "+s.session+" "+r.URL.Path))
}

// hasToken reports whether a client sent this token, or the derived value that pages send instead.
// That value is valid for one server only, so another user's program that later listens on the port
// cannot reuse it.
func (s *Server) hasToken(token, sent string) bool {
	return token != "" && (same(sent, token) || same(sent, hex.EncodeToString(mac(token, "session "+s.session))))
}

// same compares secrets in constant time.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// proof returns a proof that this server has the token. A client checks the proof before it sends the
// token, because another user may have taken over the port. The proof covers the server's address, so
// that another server cannot relay it.
func proof(token, nonce, address string) []byte { return mac(token, nonce+" "+address) }

func mac(token, text string) []byte {
	m := hmac.New(sha256.New, []byte(token))
	io.WriteString(m, text)
	return m.Sum(nil)
}

// localAddr returns the local address of a request's connection, or nil if it is unknown.
func localAddr(r *http.Request) net.Addr {
	at, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return at
}

// report reports a panic.
func (s *Server) report(p any) {
	if s.Errors != nil && p != http.ErrAbortHandler {
		fmt.Fprintf(s.Errors, "gpurun web: internal error: %v\n%s", p, debug.Stack())
	}
}
