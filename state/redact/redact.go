// Package redact removes secrets from output that other users will read: reports, web pages,
// notifications. A secret is the value of a name like KEY, TOKEN, SECRET or PASSWORD, the password
// in a URL, or a token in the format of a well-known service. The package never changes what jobs
// run.
package redact

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// Mask replaces a secret.
const Mask = "***"

// These words in a name mark its value as secret. Strong words count anywhere in the name. Weak words
// count only at its end, because key_dim and token_type are not secret; in upper-case names, like
// those of environment variables, they also count anywhere.
var (
	strong = []string{"secret", "password", "passwd", "passphrase", "credential", "apikey", "accesskey", "privatekey", "authtoken", "accesstoken"}
	weak   = []string{"key", "token", "pass"}
)

// innocent words end in a weak word but are not secret.
var innocent = []string{"monkey", "donkey", "turkey", "hockey", "bypass", "compass"}

// Named reports whether the value of a variable, argument or parameter with this name is secret.
func Named(name string) bool {
	words := wordsOf(name)
	joined := strings.Join(words, "")
	if slices.ContainsFunc(strong, func(s string) bool { return strings.Contains(joined, s) }) {
		return true
	}
	upper := name == strings.ToUpper(name)
	for i, w := range words {
		if (upper || i == len(words)-1) && isWeak(w) || i > 0 && w == "pwd" { // PWD alone is a folder
			return true
		}
	}
	return false
}

func isWeak(word string) bool {
	return !slices.Contains(innocent, word) && slices.ContainsFunc(weak, func(s string) bool { return strings.HasSuffix(word, s) })
}

// wordsOf splits a name into words: both --hfToken2 and HF_TOKEN_2 become hf and token.
func wordsOf(name string) []string {
	var words []string
	var last rune
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r):
		case !unicode.IsLetter(last) && !unicode.IsDigit(last), unicode.IsUpper(r) && unicode.IsLower(last):
			words = append(words, string(unicode.ToLower(r)))
		case len(words) > 0:
			words[len(words)-1] += string(unicode.ToLower(r))
		}
		last = r
	}
	return words
}

// Value returns the value of a variable or parameter, or Mask if its name makes it secret.
func Value(name, value string) string {
	if value == "" || reference().MatchString(value) {
		return value
	}
	if Named(name) {
		return Mask
	}
	return Text(value)
}

// leastKnown is the minimum length of a secret that is hidden wherever it occurs. A shorter one
// could be part of any word.
const leastKnown = 6

// Secrets returns the secret values of some variables or parameters.
func Secrets(values map[string]string) (secrets []string) {
	for name, value := range values {
		if len(value) >= leastKnown && Named(name) && !reference().MatchString(value) {
			secrets = append(secrets, value)
		}
	}
	return secrets
}

// Hiding returns a version of Text that also hides these secrets wherever they occur: a command
// with {api_key} filled in no longer contains the name. For the env of an earlier attempt, the
// ledger has only the first 8 digits of each value's hash. For a secret given as such digits, Hiding
// hides words with that hash.
func Hiding(secrets []string) func(string) string {
	if len(secrets) == 0 {
		return Text
	}
	secrets = slices.Compact(slices.SortedFunc(slices.Values(secrets), func(a, b string) int {
		return cmp.Or(len(b)-len(a), strings.Compare(a, b)) // longest first, because a secret may contain another
	}))
	var pairs []string
	for _, s := range secrets {
		pairs = append(pairs, s, Mask)
	}
	known := strings.NewReplacer(pairs...)
	if !slices.ContainsFunc(secrets, hashed().MatchString) {
		return func(s string) string { return Text(known.Replace(s)) }
	}
	return func(s string) string {
		return Text(word().ReplaceAllStringFunc(known.Replace(s), func(w string) string {
			sum := sha256.Sum256([]byte(strings.TrimRight(w, ".")))
			if slices.Contains(secrets, hex.EncodeToString(sum[:4])) {
				return Mask
			}
			return w
		}))
	}
}

var (
	// reference matches a value that only names a variable.
	reference = pattern(`^\$(\w+|\{\w+\}|\(.*)$`)
	hashed    = pattern(`^[0-9a-f]{8}$`)
	word      = pattern(`[\w+/~.\-]{6,}`)
	name      = pattern(`[A-Za-z_][A-Za-z0-9_.\-]*`)
	userinfo  = pattern(`([A-Za-z][A-Za-z0-9+.\-]*://)([^\s/@"'?#]+)@`)
	bearer    = pattern(`(?i)\b(bearer|basic) +[A-Za-z0-9._~+/=\-]{8,}`)
	// issued matches tokens whose format identifies them.
	issued = pattern(`\b(sk-[A-Za-z0-9_\-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w\-]{16,}|hf_[A-Za-z0-9]{20,}|xox[a-z]-[A-Za-z0-9\-]{10,}|AKIA[0-9A-Z]{16}|eyJ[\w\-]{10,}\.[\w\-]{10,}\.[\w\-]+)`)
)

// pattern compiles an expression on first use, because most commands redact nothing.
func pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// Text returns a command, a message or a log line with its secrets hidden.
func Text(s string) string {
	if strings.Contains(s, "://") {
		s = userinfo().ReplaceAllStringFunc(s, hideUserinfo)
	}
	lower := strings.ToLower(s)
	if hasAny(lower, "key", "token", "pass", "pwd", "secret", "credential") {
		s = named(s)
	}
	if hasAny(lower, "bearer ", "basic ") {
		s = bearer().ReplaceAllString(s, "$1 "+Mask)
	}
	if hasAny(s, "sk-", "gh", "glpat-", "hf_", "xox", "AKIA", "eyJ") {
		s = issued().ReplaceAllString(s, Mask)
	}
	return s
}

// hasAny is a quick check, because trying an expression takes a hundred times as long.
func hasAny(s string, words ...string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(s, word) })
}

// hideUserinfo hides the password in a URL. It also hides the user name if the URL is an HTTP one
// without a password, because the name may be a token. The git in ssh://git@host stays.
func hideUserinfo(s string) string {
	scheme, rest, _ := strings.Cut(s, "://")
	user, _, found := strings.Cut(strings.TrimSuffix(rest, "@"), ":")
	switch {
	case found:
		return scheme + "://" + user + ":" + Mask + "@"
	case strings.HasPrefix(strings.ToLower(scheme), "http"):
		return scheme + "://" + Mask + "@"
	}
	return s
}

// named hides the values of secret names: NAME=value, --name value, "name": "value".
func named(s string) string {
	var out strings.Builder
	done := 0
	for at := 0; at < len(s); {
		m := name().FindStringIndex(s[at:])
		if m == nil {
			break
		}
		begin, end := at+m[0], at+m[1]
		at = end
		if !Named(s[begin:end]) {
			continue
		}
		if from, to := valueAfter(s, begin, end); to > from && !reference().MatchString(strings.Trim(s[from:to], `"'`)) {
			out.WriteString(s[done:from] + Mask)
			done, at = to, to
		}
	}
	return out.String() + s[done:]
}

// valueAfter returns the position of the value that follows the name s[begin:end], or 0, 0 if there
// is none.
func valueAfter(s string, begin, end int) (from, to int) {
	quoted := begin > 0 && end < len(s) && (s[end] == '"' || s[end] == '\'') && s[begin-1] == s[end]
	if from = end; quoted {
		from++
	}
	rest := strings.TrimLeft(s[from:], " \t")
	switch {
	case strings.HasPrefix(s[from:], ":q}") && begin > 0 && s[begin-1] == '{': // a variable of a job file
		return 0, 0
	case strings.HasPrefix(s[from:], "="):
		from++
	case strings.HasPrefix(rest, ":") && (quoted || len(wordsOf(s[begin:end])) > 1 || !isWeak(strings.ToLower(s[begin:end]))):
		// "missing key: fc.weight" is prose
		from = len(s) - len(strings.TrimLeft(rest[1:], " \t"))
	case begin > 0 && s[begin-1] == '-' && rest != s[from:] && !strings.HasPrefix(rest, "-"):
		from = len(s) - len(rest)
	default:
		return 0, 0
	}
	to = from + valueLen(s[from:])
	if end := strings.TrimRight(s[from:to], ",}]"); quoted && strings.HasSuffix(end, s[begin-1:begin]) {
		to = from + len(end) // JSON
	}
	return from, to
}

// valueLen returns the length of the value at the beginning of s, as the shell would parse it,
// including quotes.
func valueLen(s string) int {
	var quote byte
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && quote != '\'':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case strings.IndexByte(" \t\r\n;&|<>", c) >= 0:
			return i
		}
	}
	return len(s)
}
