package routes

import (
	"hash/maphash"
	"iter"
	"math/bits"
	"slices"
)

// dict is an immutable map: with and without return another dict that shares all but a
// few nodes with the old one, so that a change to a table of ten thousand objects costs
// no more than a change to one of a hundred. It is a hash trie with sixteen slots a
// node. The zero dict is empty.
type dict[V any] struct {
	root *dictNode[V]
	len  int
}

const (
	dictBits  = 4  // of the hash, per level
	dictDepth = 64 // bits of a hash; below them a node is a plain list
)

// dictNode holds a slot for each bit that is set in filled, in order. Below dictDepth,
// where all keys have the same hash, filled is not used.
type dictNode[V any] struct {
	filled uint16
	slots  []dictSlot[V]
}

// dictSlot is either a node of the next level or one key with its value, and the other
// is nil. Both are pointers, as a change copies slots.
type dictSlot[V any] struct {
	child *dictNode[V]
	leaf  *dictLeaf[V]
}

type dictLeaf[V any] struct {
	hash  uint64
	key   string
	value V
}

// hashSeed differs in each process, so that nobody can make names that collide.
var hashSeed = maphash.MakeSeed()

func hashOf(key string) uint64 { return maphash.String(hashSeed, key) }

// place returns the bit of a hash in a node at a level, and the index of its
// slot, whether or not that is filled.
func (n *dictNode[V]) place(hash uint64, shift int) (bit uint16, index int) {
	bit = uint16(1) << (hash >> shift & (1<<dictBits - 1))
	return bit, bits.OnesCount16(n.filled & (bit - 1))
}

func (d dict[V]) get(hash uint64, key string) (value V, found bool) {
	node := d.root
	for shift := 0; node != nil; shift += dictBits {
		if shift >= dictDepth {
			for i := range node.slots {
				if leaf := node.slots[i].leaf; leaf.key == key {
					return leaf.value, true
				}
			}
			break
		}
		bit, index := node.place(hash, shift)
		if node.filled&bit == 0 {
			break
		}
		slot := node.slots[index]
		if leaf := slot.leaf; leaf != nil {
			if leaf.hash == hash && leaf.key == key {
				return leaf.value, true
			}
			break
		}
		node = slot.child
	}
	return value, false
}

// with returns a dict in which key has this value.
func (d dict[V]) with(hash uint64, key string, value V) dict[V] {
	root, added := d.root.with(0, &dictLeaf[V]{hash: hash, key: key, value: value})
	if added {
		d.len++
	}
	d.root = root
	return d
}

func (n *dictNode[V]) with(shift int, leaf *dictLeaf[V]) (_ *dictNode[V], added bool) {
	if n == nil {
		n = &dictNode[V]{}
	}
	slot := dictSlot[V]{leaf: leaf}
	var bit uint16
	var index int
	if shift >= dictDepth {
		index = slices.IndexFunc(n.slots, func(s dictSlot[V]) bool { return s.leaf.key == leaf.key })
		if index < 0 {
			return &dictNode[V]{slots: append(slices.Clone(n.slots), slot)}, true
		}
	} else if bit, index = n.place(leaf.hash, shift); n.filled&bit == 0 {
		slots := make([]dictSlot[V], 0, len(n.slots)+1)
		slots = append(append(append(slots, n.slots[:index]...), slot), n.slots[index:]...)
		return &dictNode[V]{filled: n.filled | bit, slots: slots}, true
	}
	old := n.slots[index]
	switch {
	case old.child != nil:
		var child *dictNode[V]
		child, added = old.child.with(shift+dictBits, leaf)
		slot = dictSlot[V]{child: child}
	case old.leaf.key != leaf.key:
		child, _ := (*dictNode[V])(nil).with(shift+dictBits, old.leaf)
		child, _ = child.with(shift+dictBits, leaf)
		slot, added = dictSlot[V]{child: child}, true
	}
	copied := &dictNode[V]{filled: n.filled, slots: slices.Clone(n.slots)}
	copied.slots[index] = slot
	return copied, added
}

// without returns a dict that does not have key.
func (d dict[V]) without(hash uint64, key string) dict[V] {
	if _, found := d.get(hash, key); !found {
		return d
	}
	d.root = d.root.without(0, hash, key)
	d.len--
	return d
}

// without expects that the key is in the dict.
func (n *dictNode[V]) without(shift int, hash uint64, key string) *dictNode[V] {
	var bit uint16
	var index int
	if shift >= dictDepth {
		index = slices.IndexFunc(n.slots, func(s dictSlot[V]) bool { return s.leaf.key == key })
	} else {
		bit, index = n.place(hash, shift)
	}
	if old := n.slots[index]; old.child != nil {
		// A child with one key left is replaced by that key, one level up. The child is
		// never empty now: with one key it would have been replaced before.
		child := old.child.without(shift+dictBits, hash, key)
		slot := dictSlot[V]{child: child}
		if len(child.slots) == 1 && child.slots[0].leaf != nil {
			slot = child.slots[0]
		}
		copied := &dictNode[V]{filled: n.filled, slots: slices.Clone(n.slots)}
		copied.slots[index] = slot
		return copied
	}
	if len(n.slots) == 1 {
		return nil
	}
	slots := make([]dictSlot[V], 0, len(n.slots)-1)
	slots = append(append(slots, n.slots[:index]...), n.slots[index+1:]...)
	return &dictNode[V]{filled: n.filled &^ bit, slots: slots}
}

// all yields every key with its value, in no particular order.
func (d dict[V]) all() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) { d.root.all(yield) }
}

func (n *dictNode[V]) all(yield func(string, V) bool) bool {
	if n == nil {
		return true
	}
	for i := range n.slots {
		if slot := n.slots[i]; slot.child != nil {
			if !slot.child.all(yield) {
				return false
			}
		} else if !yield(slot.leaf.key, slot.leaf.value) {
			return false
		}
	}
	return true
}
