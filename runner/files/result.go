package files

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/google/renameio/v2"

	"gpurun/state"
	"gpurun/state/host"
)

// Limits of a result file: how many bytes at its end are read, and how many its metrics may take in
// the ledger.
const (
	maxResult  = 16 << 20
	maxMetrics = 32 << 10
)

// MetricsFile is the metric that replaces all others if they do not fit in the ledger. Its value is
// the path of a file with the metrics.
const MetricsFile = "gpurun_metrics_file"

// A JobResult is the content of a job's GPURUN_RESULT.
type JobResult struct {
	Metrics   map[string]any
	ErrorType string // "oom" if the job reports it
}

// Result reads the GPURUN_RESULT file of a job: a sequence of JSON objects, in which later values
// replace earlier ones. An error_type of "oom" is not a metric. Objects with a step are points of
// curves; Result also writes them to the path curve, one per line, unless curve is "". If the metrics
// do not fit in the ledger, it copies the file to the path keep, and MetricsFile is the only metric.
// It also copies a file that is too large to read as a whole. A missing or empty file is not an
// error. If there is an error, Result still returns what it could read.
func Result(path, keep, curve string) (left JobResult, err error) {
	data, long, err := readResult(path)
	if err != nil {
		return left, fmt.Errorf("result file: %w", err)
	}
	if len(data) == 0 && !long {
		return left, nil
	}
	metrics, points, err := merge(data)
	if curve != "" && len(points) > 0 {
		err = errors.Join(err, writeCurve(curve, points))
	}
	if kind, _ := metrics["error_type"].(string); kind == state.ErrOOM {
		left.ErrorType = kind
		delete(metrics, "error_type")
	}
	if len(metrics) == 0 && !long {
		return left, err
	}
	left.Metrics = metrics
	text, e := json.Marshal(metrics)
	fits := len(metrics) > 0 && e == nil && len(text) <= maxMetrics && readable(text)
	if fits && !long {
		return left, err
	}
	file, e := kept(path, keep)
	if !fits {
		left.Metrics = file
	}
	err = errors.Join(err, e)
	return left, err
}

// readable reports whether a ledger with these metrics can be read again. It rejects numbers like
// 1e400, which no float64 holds, and values that are nested too deeply: the job would count as lost,
// because its record would be unreadable.
func readable(metrics []byte) bool {
	return json.Unmarshal(slices.Concat([]byte(`{"metrics":`), metrics, []byte("}")), &state.Fact{}) == nil
}

// Kept reads the metrics from the file that MetricsFile names.
func Kept(path string) (map[string]any, error) {
	data, _, err := readResult(path)
	if err != nil {
		return nil, err
	}
	all, _, _ := merge(data) // use the objects before an invalid one
	return all, nil
}

// ResultPoints returns the points that an attempt has reported so far, one per line.
func ResultPoints(path string) ([]byte, error) {
	data, _, err := readResult(path)
	_, points, _ := merge(data) // use the objects before an invalid one
	return points, err
}

// writeCurve writes the points of an attempt's curves. It does not sync, since nothing depends on
// the file after a crash.
func writeCurve(path string, points []byte) error {
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, points, 0o644)
	}
	if err != nil {
		return fmt.Errorf("curves: %w", err)
	}
	return nil
}

// readResult reads a result file. If the file is too large, it returns only the end, which has the
// last values, from the first line there that starts an object.
func readResult(path string) (data []byte, long bool, err error) {
	f, info, err := host.OpenRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	from := max(0, info.Size()-maxResult)
	data, err = io.ReadAll(io.NewSectionReader(f, from, maxResult))
	if from == 0 {
		return data, false, err
	}
	i := bytes.Index(data, []byte("\n{"))
	if i < 0 {
		i = len(data)
	}
	return data[i:], true, err
}

// merge reads objects up to the first invalid one, which may be incomplete because the job was
// killed while writing. It skips values that are not objects. points contains the objects with a
// step, one per line.
func merge(data []byte) (all map[string]any, points []byte, err error) {
	data = quoteNaN(data)
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	all = map[string]any{}
	var line bytes.Buffer
	var skipped error
	for n := 1; ; n++ {
		var one map[string]any
		from := d.InputOffset()
		err := d.Decode(&one)
		if other, is := errors.AsType[*json.UnmarshalTypeError](err); is {
			skipped = cmp.Or(skipped, fmt.Errorf("result file: value %d is of type %s: write an object such as {\"acc\": 0.93}", n, other.Value))
			continue
		}
		if err == io.EOF {
			return all, line.Bytes(), skipped
		}
		if err != nil {
			return all, line.Bytes(), cmp.Or(skipped, fmt.Errorf("result file: object %d: %w", n, err))
		}
		maps.Copy(all, one)
		if _, isPoint := one["step"].(json.Number); isPoint && json.Compact(&line, data[from:d.InputOffset()]) == nil {
			line.WriteByte('\n')
		}
	}
}

// kept copies a result file to the path keep, and returns the metric that names the copy.
func kept(path, keep string) (map[string]any, error) {
	if err := copyFile(path, keep); err != nil {
		return nil, fmt.Errorf("cannot keep the result file: %w", err)
	}
	return map[string]any{MetricsFile: keep}, nil
}

func copyFile(from, to string) error {
	src, _, err := host.OpenRegular(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := renameio.NewPendingFile(to, renameio.WithPermissions(0o644))
	if err != nil {
		return err
	}
	defer dst.Cleanup()
	if _, err := io.Copy(dst, src); err != nil {
		return err
	}
	return dst.CloseAtomicallyReplace()
}

// notJSON are the numbers that Python's json.dumps writes although JSON lacks them.
var notJSON = [...]string{"NaN", "Infinity", "-Infinity"}

// quoteNaN quotes NaN and the infinities outside strings. A diverged loss is a valid result.
func quoteNaN(data []byte) []byte {
	var out []byte
	from := 0 // out has the data before it
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		case 'N', 'I', '-':
			for _, word := range notJSON {
				if bytes.HasPrefix(data[i:], []byte(word)) {
					out = strconv.AppendQuote(append(out, data[from:i]...), word)
					from = i + len(word)
					i = from - 1
					break
				}
			}
		}
	}
	if from == 0 {
		return data
	}
	return append(out, data[from:]...)
}
