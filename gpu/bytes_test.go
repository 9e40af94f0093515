package gpu

import (
	"strings"
	"testing"
)

func TestParseBytes(t *testing.T) {
	tests := []struct {
		text string
		want Bytes
		err  string
	}{
		{"8GiB", 8 * GiB, ""}, {" 8000 MiB ", 8000 * MiB, ""}, {"1.5GiB", 3 * GiB / 2, ""}, {"8GB", 8e9, ""},
		{"1kB", 1000, ""}, {"1KiB", 1024, ""}, {"7B", 7, ""}, {"0B", 0, ""}, {"2TiB", 2 * TiB, ""},
		{"8", 0, "has no unit (try 8MiB or 8GiB)"}, {"", 0, "invalid size"}, {"GiB", 0, "invalid size"},
		{"8Gi", 0, "invalid size"}, {"-1GiB", 0, "is negative"}, {"NaNGiB", 0, "invalid size"}, {"InfGiB", 0, "invalid size"},
		{"0x8GiB", 0, "invalid size"}, {"1_0GiB", 0, "invalid size"}, {"9999999999TiB", 0, "is more than any machine has"},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			got, err := ParseBytes(tt.text)
			if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %d, %v, want %d, %q", got, err, tt.want, tt.err)
			}
		})
	}
}

func TestFormatBytes(t *testing.T) {
	tests := []struct {
		b            Bytes
		exact, round string
	}{
		{-1, "unknown", "unknown"}, {0, "0B", "0 B"}, {7, "7B", "7 B"}, {512 * MiB, "512MiB", "512 MiB"},
		{37 * GiB, "37GiB", "37 GiB"}, {3 * GiB / 2, "1536MiB", "1.5 GiB"}, {GiB, "1GiB", "1 GiB"}, {8000 * MiB, "8000MiB", "7.8 GiB"},
	}
	for _, tt := range tests {
		if tt.b.String() != tt.exact || tt.b.Round() != tt.round {
			t.Errorf("%d: got %q, %q, want %q, %q", tt.b, tt.b.String(), tt.b.Round(), tt.exact, tt.round)
		}
	}
}

func TestAskedFormatsAmountAsWritten(t *testing.T) {
	for _, tt := range []struct{ written, want string }{
		{"8000MiB", "8000MiB"}, {"12000MiB", "12000MiB"}, {"8GB", "8GB"}, {"500MB", "500MB"}, {"16GiB", "16 GiB"},
		{"1.5GiB", "1.5 GiB"}, {"16384MiB", "16 GiB"}, {"512MiB", "512 MiB"}, {"23192823398B", "22 GiB"},
	} {
		b, err := ParseBytes(tt.written)
		if got := b.Asked(); err != nil || got != tt.want {
			t.Errorf("%s: %q, %v, want %q", tt.written, got, err, tt.want)
		}
	}
}

func FuzzParseBytes(f *testing.F) {
	for _, s := range []string{"8GiB", "8000MiB", "1.5GB", "8", "-1GiB", "1e3kB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b, err := ParseBytes(s)
		if err != nil {
			return
		}
		if again, err := ParseBytes(b.String()); err != nil || again != b {
			t.Errorf("%q parses as %d, whose text %q parses as %d, %v", s, b, b.String(), again, err)
		}
		if b < 0 || b.Round() == "" {
			t.Errorf("%q parses as %d, rounded %q", s, b, b.Round())
		}
	})
}

func TestAmpleAddsATenthOr512MiB(t *testing.T) {
	for peak, want := range map[Bytes]Bytes{
		200 * MiB: 768 * MiB, 4 * GiB: 4*GiB + 512*MiB, 9 * GiB: 10 * GiB, 40 * GiB: 44 * GiB, 9*GiB + 1: 10 * GiB,
	} {
		if got := peak.Ample(); got != want {
			t.Errorf("Ample of %s is %s, want %s", peak, got, want)
		}
	}
}
