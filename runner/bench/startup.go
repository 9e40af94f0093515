package main

import "time"

// startUp is figure 6: how long the commands take that a person types most.
func (b *bench) startUp() error {
	dir := b.folder("6")
	for _, c := range []struct {
		name string
		args []string
		bar  time.Duration
		says string
	}{
		{"6 gpurun --help", []string{"--help"}, 20 * time.Millisecond, "< 20 ms"},
		{"6 gpurun gpus --sim 8x80GiB", []string{"gpus", "--sim", "8x80GiB"}, 50 * time.Millisecond, "< 50 ms"},
	} {
		var took []time.Duration
		for range 10*b.rounds + 1 {
			m, err := command{dir: dir, argv: append([]string{b.gpurun}, c.args...)}.measure()
			if err != nil {
				return err
			}
			took = append(took, m.wall)
		}
		half := median(took)
		b.under(c.name, millis(half), c.says, half < c.bar)
	}
	return nil
}
