package forecast

import "testing"

func TestProgressFindsCoarsestMeasure(t *testing.T) {
	for log, want := range map[string]float64{
		"":                       -1,
		"loss 0.3 on 2026/03/01": -1,
		"lr 1/1\nseed 4/2\n":     -1,
		"epoch 7/20: loss 0.3\n": 0.35,
		"Epoch [3/12] step 5\n 50%|█████ | 40/80 [00:01<00:01]\n":                                 0.25,
		"start\n 45%|████▌     | 450/1000 [00:40<00:49]\r 46%|████▌     | 460/1000 [00:41<00:48]": 0.46,
		"training: 12.5 %\ntraining: 80 %": 0.8,
		"step 300 of 400":                  0.75,
		"saved /data/10/20/model":          -1,
	} {
		got, _, ok := Progress(log)
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%q: got %v, want %v", log, got, want)
		}
	}
}
