package agent

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// lines passes on valid messages. It answers other lines itself, because the library would end the
// session.
type lines struct {
	io.Closer
	in   *bufio.Scanner
	out  io.Writer
	rest []byte // rest of the current line
}

func newLines(in io.ReadCloser, out io.Writer) *lines {
	l := &lines{Closer: in, in: bufio.NewScanner(in), out: out}
	l.in.Buffer(nil, mcp.DefaultMaxLineLength)
	return l
}

func (l *lines) Read(b []byte) (int, error) {
	for len(l.rest) == 0 {
		if !l.in.Scan() {
			return 0, cmp.Or(l.in.Err(), io.EOF)
		}
		line := bytes.TrimSpace(l.in.Bytes())
		var err error
		switch _, wrong := jsonrpc.DecodeMessage(line); {
		case len(line) == 0:
		case !json.Valid(line):
			err = l.refuse(jsonrpc.CodeParseError, "a line is not valid JSON")
		case wrong != nil:
			err = l.refuse(jsonrpc.CodeInvalidRequest, "a line is not a JSON-RPC 2.0 message")
		default:
			l.rest = append(line, '\n')
		}
		if err != nil {
			return 0, err
		}
	}
	n := copy(b, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// refuse answers an invalid line, which has no known request ID.
func (l *lines) refuse(code int, text string) error {
	_, err := fmt.Fprintf(l.out, `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%q}}`+"\n", code, text)
	return err
}
