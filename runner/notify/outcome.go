package notify

import "fmt"

// An outcome is the result of sending a message. It does not contain the text of an error, because
// that text may contain a URL with a token.
type outcome struct {
	Class class `json:"class"`
	Code  int   `json:"code,omitempty"` // HTTP, SMTP or exit status, or a chat service's error code

	name string // name of the variable that is not set
}

// A class is a kind of outcome.
type class string

const (
	delivered    class = "delivered"
	unset        class = "unset"
	badURL       class = "bad_url"
	unknownHost  class = "unknown_host"
	unreachable  class = "unreachable"
	untrusted    class = "untrusted"
	unencrypted  class = "unencrypted"
	silent       class = "silent"
	broken       class = "broken"
	moved        class = "moved"
	unauthorized class = "unauthorized"
	gone         class = "gone"
	refused      class = "refused"
	tooMany      class = "too_many"
	troubled     class = "troubled"
	failed       class = "failed"
	slow         class = "slow"
)

// classes maps each class to the problem, a fix, and whether a retry may succeed.
var classes = map[class]struct {
	text, fix string
	passes    bool
}{
	delivered:    {"delivered", "", false},
	unset:        {"is not set", "export it before gpurun starts", false},
	badURL:       {"its URL is invalid", "copy it again", false},
	unknownHost:  {"unknown host name", "check the URL for typos; behind a proxy, set HTTPS_PROXY", true},
	unreachable:  {"cannot reach its host", "check the network, the port, and whether a proxy is needed (HTTPS_PROXY)", true},
	untrusted:    {"its TLS certificate is invalid", "check the host name and the port; for your own CA, set SSL_CERT_FILE", false},
	unencrypted:  {"its mail server does not support encryption, so gpurun did not send the password", "use smtps:// or the submission port (587)", false},
	silent:       {"no response within 10 s", "check the port, the firewall, and whether a proxy is needed (HTTPS_PROXY)", true},
	broken:       {"the connection was lost", "try again", true},
	moved:        {"it redirects to another URL", "use the URL that it redirects to", false},
	unauthorized: {"it does not accept the token or password", "create a new one and export it", false},
	gone:         {"it does not recognize this address", "copy the URL again, and check that the webhook or chat still exists", false},
	refused:      {"it rejected the message", "check that the URL belongs to this service, or choose another with SERVICE+https://", false},
	tooMany:      {"too many messages", "send fewer, e.g. with on: [done]", true},
	troubled:     {"it reported an internal error", "try again later", true},
	slow:         {"the command did not end within 10 s", "let it start slow work in the background", false},
	failed:       {"the command failed", "run it by hand, and send it a line of JSON and then text on standard input", false},
}

func (o outcome) ok() bool { return o.Class == delivered }

// passes reports whether a retry may succeed.
func (o outcome) passes() bool { return classes[o.Class].passes }

// String describes the problem: "it does not recognize this address (404)".
func (o outcome) String() string {
	c, ok := classes[o.Class]
	if !ok {
		c = classes[broken]
	}
	if o.name != "" {
		return "$" + o.name + " " + c.text
	}
	if o.Code != 0 {
		return fmt.Sprintf("%s (%d)", c.text, o.Code)
	}
	return c.text
}

func (o outcome) fix() string { return classes[o.Class].fix }

// classOfStatus returns what an HTTP status other than 2xx means.
func classOfStatus(status int) class {
	switch {
	case status == 401 || status == 403:
		return unauthorized
	case status == 404 || status == 410:
		return gone
	case status == 408 || status == 429:
		return tooMany
	case status/100 == 3:
		return moved
	case status/100 == 4:
		return refused
	}
	return troubled
}
