package forecast

import (
	"testing"
	"time"
)

// Thousands of jobs that take milliseconds must not be foreseen to take a second each.
func TestShortJobsTakeLessThanASecond(t *testing.T) {
	if rest, _ := remaining([]float32{0.02, 0.02}, 0, nil, nil); rest < 19*time.Millisecond || rest > 21*time.Millisecond {
		t.Errorf("a job takes %v, want 20 ms as others did", rest)
	}
	if rest, _ := remaining([]float32{60, 60}, 60*time.Second-time.Millisecond, nil, nil); rest != time.Second {
		t.Errorf("a job takes %v more, want a second at least", rest)
	}
}
