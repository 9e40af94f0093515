package disk

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"gpurun/state"
)

// A packed base answers like a map of records, in any order of queries, while records
// are added and replaced.
func TestPacked(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 2))
		want := map[string]*state.Record{}
		x := &packed{ledger: 3}
		keys := make([]string, 1+r.IntN(200))
		for i := range keys {
			keys[i] = fmt.Sprintf("%016x%016x", r.Uint64()>>r.IntN(64), r.Uint64())
			if r.IntN(20) == 0 {
				keys[i] = fmt.Sprint("odd", i)
			}
		}
		for seq := int64(1); seq < 1000; {
			batch := map[string]*state.Record{}
			for range r.IntN(50) {
				key := keys[r.IntN(len(keys))]
				batch[key] = &state.Record{
					Key: key, Job: fmt.Sprint(seq), State: []state.Phase{state.Succeeded, state.Failed}[r.IntN(2)], Ledger: 3,
					StartSeq: seq, EndSeq: seq + 1, Forgotten: r.IntN(5) == 0, Needs: []string{"", "1:ab"}[r.IntN(2)],
				}
				seq += 2
			}
			var list []*state.Record
			for key, rec := range batch {
				want[key] = rec
				list = append(list, rec)
			}
			x.put(list)
			askPacked(t, r, x, keys, want)
			if r.IntN(5) == 0 {
				x = x.living()
				askPacked(t, r, x, keys, want)
			}
			seq++
		}
	}
}

func askPacked(t *testing.T, r *rand.Rand, x *packed, keys []string, want map[string]*state.Record) {
	t.Helper()
	if x.Len() != len(want) {
		t.Fatalf("%d records, want %d", x.Len(), len(want))
	}
	all := map[string]*state.Record{}
	for rec := range x.All() {
		all[rec.Key] = rec
	}
	if !reflect.DeepEqual(all, want) {
		t.Fatalf("all are %v, want %v", all, want)
	}
	inOrder := r.IntN(2) == 0
	for i := range 2 * len(keys) {
		if !inOrder {
			i = r.IntN(len(keys))
		}
		key := keys[i%len(keys)]
		if got := x.Find(key); !reflect.DeepEqual(got, want[key]) {
			t.Fatalf("%s: %+v, want %+v", key, got, want[key])
		}
		id, odd := keyID(key)
		if plain := want[key] != nil && want[key].Plain(); x.Plain(id) != (plain && !odd) {
			t.Fatalf("%s: plain %v, want %v", key, !plain, plain)
		}
	}
	if x.Find("none") != nil || x.Find(fmt.Sprintf("%032x", 1)) != nil {
		t.Fatal("found a missing key")
	}
}

// Queries in start order do not build the hash table.
func TestPackedIsReadInOrder(t *testing.T) {
	y := &packed{}
	for i := range 1000 {
		id, _ := keyID(fmt.Sprintf("%032x", i))
		y.add(id, flagPlain, appendRecord(nil, &state.Record{State: state.Succeeded}))
	}
	for i := range 1000 {
		if id, _ := keyID(fmt.Sprintf("%032x", i)); !y.Plain(id) {
			t.Fatalf("%d not found", i)
		}
	}
	if y.slots != nil {
		t.Error("the hash table was built")
	}
}
