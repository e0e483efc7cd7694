package cel

import (
	"context"
	"errors"
	"regexp"

	"github.com/google/cel-go/interpreter"
)

// Budget bounds what all texts of one operation do together. It is not safe for concurrent
// use.
type Budget struct {
	left int
	// patterns are the regular expressions that have been compiled, and their weights.
	patterns map[string]pattern
}

type pattern struct {
	*regexp.Regexp
	weight int
}

// maxWork bounds an operation, in units of which each takes 500 ns and 64 bytes at most; most
// take a tenth. A look at a value is a unit, and so are 64 bytes of a text that is made.
const maxWork = 600_000

// NewBudget returns the Budget of an operation.
func NewBudget() *Budget { return &Budget{left: maxWork, patterns: map[string]pattern{}} }

// spend pays for a text that is made outside of expressions.
func (b *Budget) spend(bytes int) error {
	units := 1 + bytes/bytesMade
	if units > b.left {
		b.left = 0
		return errWork
	}
	b.left -= units
	return nil
}

// meter charges one evaluation.
type meter struct {
	*Budget
	ctx context.Context
	// unchecked is what has been charged since the context was looked at.
	unchecked int
}

// contextEvery is how much is charged between two looks at the context.
const contextEvery = 1000

var errWork = errors.New("the expressions of the step take more work together than is allowed: loop over less, or use shorter texts")

// charge takes units before they are spent. There is no way back once they are used up:
// operators like || would go on after an error.
func (m *meter) charge(units int) {
	if units < 0 || units > m.left {
		m.left = 0
		panic(interpreter.EvalCancelledError{Cause: interpreter.CostLimitExceeded, Message: errWork.Error()})
	}
	m.left -= units
	if m.unchecked += units; m.unchecked < contextEvery {
		return
	}
	m.unchecked = 0
	if err := m.ctx.Err(); err != nil {
		panic(interpreter.EvalCancelledError{Cause: interpreter.ContextCancelled, Message: err.Error()})
	}
}

// Units of texts by their length.
const (
	// bytesMade are the bytes of a text that are made for a unit: they take memory.
	bytesMade = 64
	// bytesRead are the bytes of a text that are compared or hashed for a unit.
	bytesRead = 512
)

// made charges for texts that are made.
func (m *meter) made(bytes int) { m.charge(bytes / bytesMade) }

// read charges for a text that is read at memory's speed, each time it is mentioned.
func (m *meter) read(bytes int) { m.charge(bytes / bytesRead) }
