package routes

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzDict: a dict has the content of a map after the same steps, whatever hashes
// collide, and no step changes earlier dicts.
func FuzzDict(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed, uint64(0xffffffffffffffff))
		f.Add(seed, uint64(0x0))                // all keys collide
		f.Add(seed, uint64(0xf00000000000000f)) // some collide: only bits at both ends of the hash count
	}
	f.Fuzz(func(t *testing.T, seed, mask uint64) {
		random := rand.New(rand.NewPCG(seed, 0))
		hash := func(key string) uint64 { return hashOf(key) & mask }
		var d, earlier dict[int]
		model, modelThen := map[string]int{}, map[string]int{}
		for step := range 300 {
			if step == 150 {
				earlier, modelThen = d, maps.Clone(model)
			}
			key := fmt.Sprint("key", random.IntN(60))
			if random.IntN(5) < 3 {
				d = d.with(hash(key), key, step)
				model[key] = step
			} else {
				d = d.without(hash(key), key)
				delete(model, key)
			}
			if d.len != len(model) {
				t.Fatalf("step %d: %d keys, want %d", step, d.len, len(model))
			}
			want, in := model[key]
			if got, found := d.get(hash(key), key); got != want || found != in {
				t.Fatalf("step %d: %s is %d, %t; want %d, %t", step, key, got, found, want, in)
			}
		}
		if diff := cmp.Diff(model, maps.Collect(d.all())); diff != "" {
			t.Errorf("dict (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(modelThen, maps.Collect(earlier.all())); diff != "" {
			t.Errorf("a dict was changed by what was made of it (-then +now):\n%s", diff)
		}
		for key := range model {
			d = d.without(hash(key), key)
		}
		if d.root != nil || d.len != 0 {
			t.Errorf("emptied, the dict has %d keys and root %v", d.len, d.root)
		}
	})
}
