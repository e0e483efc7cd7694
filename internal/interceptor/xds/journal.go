package xds

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// journalLength is how many changes are kept, at least, for streams that are behind; a
// stream that is further behind compares everything.
const journalLength = 8192

// change says what a stream has to look at again. The current state is in the snapshot.
type change struct {
	kind    subject
	object  types.NamespacedName
	cluster string
	at      time.Time
}

type subject uint8

const (
	anObject subject = iota
	aCluster
	allAssignments
)

// journal lists what changed, in order. Each reader keeps its own position in it.
type journal struct {
	first   uint64 // the position of changes[0]
	changes []change
}

func (j *journal) end() uint64 { return j.first + uint64(len(j.changes)) }

// add does not modify what since has returned.
func (j *journal) add(changes ...change) {
	if more := len(changes) - journalLength; more > 0 {
		j.first, j.changes, changes = j.end()+uint64(more), nil, changes[more:]
	}
	j.changes = append(j.changes, changes...)
	if len(j.changes) > 2*journalLength {
		old := j.changes
		kept := make([]change, journalLength, 2*journalLength)
		copy(kept, old[len(old)-journalLength:])
		j.first += uint64(len(old) - journalLength)
		j.changes = kept
	}
}

// since returns what changed from a position on, and false when these changes are no
// longer kept.
func (j *journal) since(position uint64) ([]change, bool) {
	if position < j.first || position > j.end() {
		return nil, false
	}
	return j.changes[position-j.first : len(j.changes) : len(j.changes)], true
}
