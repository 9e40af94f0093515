package sched

import (
	"testing"

	"gpurun/gpu"
)

func TestHandOverQueries(t *testing.T) {
	offer := func(id gpu.UUID, run string) handOver {
		return handOver{id: id, claim: "u1", open: true, until: 1, dealt: true, turn: gpu.Turn{Run: run}}
	}
	d := devices{hands: []handOver{offer("a", "x"), offer("b", "y"), offer("c", "x"), {id: "d", claim: "u1", open: true}, {id: "e", claim: "u1", open: true}}, excluded: []gpu.UUID{"e"}}
	for i, want := range []int{0, 0, 1} {
		if n := d.offersBefore(i); n != want {
			t.Errorf("%d offers come before offer %d to the same run, want %d", n, i, want)
		}
	}
	if ids := d.undealt(); len(ids) != 1 || ids[0] != "d" {
		t.Errorf("got %v to deal, want d: a, b and c are offered, and e was released", ids)
	}
	if d.endHandOver([]gpu.UUID{"a", "d"}); d.inHandOver("a") || d.inHandOver("d") || !d.inHandOver("b") || !d.inHandOver("") {
		t.Error("the hand-overs of a and d must have ended, and no others")
	}
	d.closeHandOvers(func(*handOver) bool { return true })
	if d.inHandOver("") || d.hands[0].claim == "" {
		t.Error("all hand-overs must have ended, with their claims kept")
	}
}
