package report

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"path/filepath"
	"strings"

	"gpurun/state/schema"
)

// Built from runner/ui.
var (
	//go:embed bundle/report.js
	script string
	//go:embed bundle/report.css
	style string
)

// maxPlain is the size in bytes up to which data stays readable, so that users can search the file.
// Larger data is compressed, to fit in an email.
const maxPlain = 1 << 20

// The page loads nothing and runs only the script with this hash. Job names and logs are always
// text.
const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src '%s'; style-src '%s'; img-src data:; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="gpurun">
<link rel="icon" href="data:,">
<title>%s</title>
<style>%s</style>
</head>
<body>
<div id="app"><p>Loading…</p></div>
<noscript><p>This report needs JavaScript, which makes no network requests here. Without JavaScript, use gpurun history and gpurun results.</p></noscript>
<script type="%s" id="data">%s</script>
<script>%s</script>
</body>
</html>
`

// HTML writes a report as a single-file page.
func HTML(w io.Writer, r *schema.Report) error {
	data, err := json.Marshal(r) // Marshal escapes <, > and &
	if err != nil {
		return err
	}
	kind, text := "application/json", string(data)
	if len(data) > maxPlain {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, _ = z.Write(data)
		_ = z.Close()
		kind, text = "application/gzip", base64.StdEncoding.EncodeToString(packed.Bytes())
	}
	var names []string
	for _, f := range r.Batch.Files {
		names = append(names, filepath.Base(f.Path))
	}
	title := html.EscapeString(strings.Join(names, ", ") + " – gpurun report")
	_, err = fmt.Fprintf(w, page, hash(script), hash(style), title, style, kind, text, script)
	return err
}

// hash returns the Content-Security-Policy source of an inline script or style.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
