package agent

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// Valid messages pass unchanged. Other nonempty lines get an error and do not end the session.
func TestInvalidLinesGetErrors(t *testing.T) {
	const good = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for in, want := range map[string]int{
		good: 0, good + "\r\n": 0, good + "\nx" + good: 1, "\x00\xff\n": 1, `{"id":` + "\n": 1, good + good + "\n": 1, "[" + good + "]\n": 1, "\n \n": 0,
	} {
		for _, end := range []string{"", "\n" + good + "\n"} {
			var out bytes.Buffer
			got, err := io.ReadAll(newLines(io.NopCloser(iotest.HalfReader(strings.NewReader(in+end))), &out))
			if err != nil {
				t.Errorf("%.50q: %v", in, err)
			}
			passed := 0
			if in == good || strings.HasPrefix(in, good+"\n") || strings.HasPrefix(in, good+"\r") {
				passed++
			}
			if end != "" {
				passed++
			}
			if string(got) != strings.Repeat(good+"\n", passed) || strings.Count(out.String(), "\n") != want {
				t.Errorf("%.50q: passed %.200q and answered %.200q, want %d messages and %d answers", in, got, out.String(), passed, want)
			}
		}
	}
}
