package state

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"gpurun/gpu"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func level(i, used, util int) Pressure {
	return Pressure{Level: gpu.Level{UUID: gpu.UUID(fmt.Sprint("GPU-", i)), Index: i, Used: gpu.Bytes(used) * gpu.MiB, Ours: -1, Util: util}}
}

// Readings within one step share a row, with the maximum of memory. Unknown values stay unknown.
func TestReadingsOfOneStepShareARow(t *testing.T) {
	var g GPUReadings
	for i, used := range []int{100, 300, 200} {
		g.Add(noon.Add(time.Duration(i)*time.Second), []Pressure{level(0, used, 10*i)})
	}
	done, _ := g.Add(noon.Add(5*time.Second), []Pressure{level(0, 50, 0)})
	if done == nil {
		t.Fatal("the row is not complete")
	}
	if *done.GPUs[0].Used != 300 || *done.GPUs[0].Util != 20 || done.GPUs[0].Ours != nil {
		t.Errorf("got %s", done.Line())
	}
}

func TestReadingsStayBoundedAndKeepPeaks(t *testing.T) {
	for gpus, hours := range map[int]int{1: 48, 8: 24, 64: 2} {
		var g GPUReadings
		largest := 0
		for at := noon; at.Before(noon.Add(time.Duration(hours) * time.Hour)); at = at.Add(5 * time.Second) {
			levels := make([]Pressure, gpus)
			for i := range levels {
				levels[i] = level(i, 1000, 50)
				levels[i].Code, levels[i].User, levels[i].Others, levels[i].Ours = gpu.Claimed, "somebody", true, 500*gpu.MiB
			}
			if at.Equal(noon.Add(time.Hour)) {
				levels[0] = level(0, 20000, 50)
			}
			g.Add(at, levels)
			if len(g.Rows) > largest {
				largest = len(g.Rows)
			}
		}
		text := g.Text(true)
		if len(text) > 5<<18 || largest*gpus > maxReadings+gpus || len(g.Rows)*gpus < maxReadings/3 {
			t.Errorf("%d GPUs: %d bytes, %d rows, %d rows at most", gpus, len(text), len(g.Rows), largest)
		}
		highest := 0
		for i, r := range g.Rows {
			highest = max(highest, *r.GPUs[0].Used)
			if i > 0 && r.Unix <= g.Rows[i-1].Unix || math.Abs(*r.GPUs[0].Util-50) > 1e-9 {
				t.Fatalf("row %d: %s", i, r.Line())
			}
		}
		if highest != 20000 {
			t.Errorf("%d GPUs: the peak is %d, want 20000", gpus, highest)
		}
		if again := ParseGPUReadings(string(text)); !reflect.DeepEqual(again, &g) {
			t.Errorf("%d GPUs: readings differ after a reload", gpus)
		}
	}
}

func TestReadingsContinueAfterReload(t *testing.T) {
	var g GPUReadings
	g.Add(noon, []Pressure{level(0, 1, 1)})
	again := ParseGPUReadings(string(g.Text(true)))
	_, anew := again.Add(noon.Add(time.Hour), []Pressure{level(3, 7, 7), level(0, 2, 2)})
	if !anew || len(again.Rows) != 2 || again.Devices[1].Index != 3 || *again.Rows[1].GPUs[1].Used != 7 {
		t.Errorf("new device: got %s", again.Text(true))
	}
	if again.Add(noon.Add(time.Minute), []Pressure{level(0, 9, 9)}); len(again.Rows) != 2 || *again.Rows[1].GPUs[0].Used != 9 {
		t.Errorf("earlier time: got %s, want it in the last row", again.Text(true))
	}
	if again.Add(noon.Add(2*time.Hour), []Pressure{level(0, -1, -1)}); len(again.Rows) != 2 {
		t.Errorf("a row without values was added: %s", again.Text(true))
	}
}

func TestTruncatedReadingsKeepCompleteRows(t *testing.T) {
	var g GPUReadings
	for i := range 20 {
		g.Add(noon.Add(time.Duration(i)*time.Minute), []Pressure{level(0, i, i)})
	}
	text := string(g.Text(true))
	for n := range len(text) {
		if got, want := len(ParseGPUReadings(text[:n]).Rows), max(0, strings.Count(text[:n], "\n")-1); got != want && got != want+1 {
			t.Fatalf("cut at %d: %d rows, want %d", n, got, want)
		}
	}
}

func FuzzParseGPUReadings(f *testing.F) {
	var g GPUReadings
	g.Add(noon, []Pressure{level(0, 1, 1), level(1, -1, 3)})
	f.Add(string(g.Text(true)))
	f.Fuzz(func(t *testing.T, text string) {
		g := ParseGPUReadings(text)
		g.Add(noon, []Pressure{level(0, 5, 5)})
		if again := ParseGPUReadings(string(g.Text(true))); len(again.Rows) != len(g.Rows) {
			t.Errorf("%d rows before a reload, %d after", len(g.Rows), len(again.Rows))
		}
	})
}

// A run that watched a job has readings without a gap until it was killed. Those of the next run
// come after the outage.
func TestReadingsEndWithTheirRun(t *testing.T) {
	g := GPUReadings{Step: 5 * time.Second}
	for _, at := range []int64{95, 100, 105, 110, 150, 155, 1000, 1005} {
		g.Rows = append(g.Rows, GPUReadingRow{Unix: at})
	}
	for since, want := range map[int64]int64{97: 160, 100: 160, 158: 160, 500: 500, 1003: 1010} {
		if got := g.Until(time.Unix(since, 0)); got.Unix() != want {
			t.Errorf("from %d: got %d, want %d", since, got.Unix(), want)
		}
	}
}
