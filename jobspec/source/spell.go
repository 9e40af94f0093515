package source

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Outside of flow style, every YAML parser reads an unquoted value as text if it matches plainText but
// not otherValue. singleQuoted matches text that needs no escape in single quotes.
var (
	plainText    = regexp.MustCompile(`^[A-Za-z0-9_./][A-Za-z0-9_./=,+@%^~();<>|$&\\ -]*$`)
	singleQuoted = regexp.MustCompile(`^[ -&(-~]+$`)
	otherValue   = regexp.MustCompile(`(?i)^(?:[0-9._+-]*[0-9][0-9a-fox._:+-]*|y|n|yes|no|on|off|true|false|null|\.nan|[+-]?\.inf)$`)
	plainValue   = regexp.MustCompile(`^([0-9][0-9A-Za-z.]*|true|false|forever|success|failure|always|auto|wait|kill|fail|exit|oom|timeout|stalled|warn|signal|lost|all)$`)
)

// Spell formats text for a YAML file: without quotes if they are not needed, and in single quotes if
// double quotes would need backslashes.
func Spell(s string) string {
	switch {
	case plainText.MatchString(s) && !otherValue.MatchString(s) && s[len(s)-1] != ' ':
		return s
	case strings.ContainsAny(s, `"\`) && singleQuoted.MatchString(s):
		return "'" + s + "'"
	}
	return strconv.Quote(s)
}

// SpellAs formats a scalar so that it keeps its type when read back.
func SpellAs(tag, text string) string {
	if slices.Contains([]string{"!!int", "!!float", "!!bool", "!!null"}, tag) {
		return text
	}
	return Spell(text)
}

// SpellValue formats the value of a setting or of one of gpurun's own keys. It leaves numbers and
// known words unquoted, because gpurun reads such values as text in any case.
func SpellValue(s string) string {
	if plainValue.MatchString(s) {
		return s
	}
	return Spell(s)
}

// inBlock matches lines that a literal block reproduces: printable characters, no blank lines at
// either end, and a first line that is not indented.
var inBlock = Regexp(`\A[!-~][ -~]*(?:\n(?:[\t ]*[!-~][\t -~]*)?)*\n[\t ]*[!-~][\t -~]*\n?\z`)

// SpellScript formats text of several lines as a literal block, whose lines the caller indents. If a
// literal block would not reproduce the text, head is the result of Spell.
func SpellScript(s string) (head string, lines []string) {
	if !inBlock().MatchString(s) {
		return Spell(s), nil
	}
	head = "|-"
	if strings.HasSuffix(s, "\n") {
		head = "|"
	}
	return head, strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}
