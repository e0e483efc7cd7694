// Package bound limits the time and memory that the templates and expressions in a Rollout
// can take in the process that all Rollouts share.
//
// Neither language can be interrupted. So each step of an evaluation pays from a Budget for
// what it is about to do, and fails when the Budget is used up. The same text over the same
// data costs the same on every machine.
package bound

import (
	"fmt"
	"reflect"
	"strings"
)

// Budget is what one evaluation may do. It is not safe for concurrent use.
type Budget struct {
	left  int
	value int
	pool  *Pool
}

// maxPool bounds what the evaluations of one operation of a step do together, in units of a
// Budget: a configuration has room for more than a thousand templates and expressions.
const maxPool = 16 << 20

// Pool is what the evaluations of one operation of a step may do together, in addition to the
// Budget of each. It is not safe for concurrent use. A nil Pool has no bound.
type Pool struct{ left int }

// NewPool returns the Pool of an operation.
func NewPool() *Pool { return &Pool{left: maxPool} }

// Budget returns a budget that also takes what it spends from the pool.
func (p *Pool) Budget(work, value int) *Budget { return &Budget{left: work, value: value, pool: p} }

// New returns a budget of so many units of work, each of about 10 ns or one byte of memory,
// in which no value is larger than a number of bytes.
func New(work, value int) *Budget { return &Budget{left: work, value: value} }

// Error says that an evaluation would go over its bounds.
type Error struct{ text string }

// Error is the text, for the author.
func (e *Error) Error() string { return e.text }

// Errorf returns an Error.
func Errorf(format string, args ...any) error {
	return &Error{text: fmt.Sprintf(format, args...)}
}

// Spend takes units from the budget.
func (b *Budget) Spend(units int) error {
	if units < 0 || units > b.left {
		b.left = 0
		return Errorf("it takes more work than is allowed: loop over less, or use shorter texts")
	}
	if b.pool != nil {
		if units > b.pool.left {
			b.left, b.pool.left = 0, 0
			return Errorf("the templates and expressions of the step take more work together than is allowed: have fewer, loop over less, or use shorter texts")
		}
		b.pool.left -= units
	}
	b.left -= units
	return nil
}

// Left is how many units are left.
func (b *Budget) Left() int { return b.left }

// Take pays for reading values whole. It is an error if together they are too large.
func (b *Budget) Take(values ...any) error {
	m := measure{left: b.value}
	for _, value := range values {
		m.add(reflect.ValueOf(value), 0)
	}
	switch {
	case m.deep:
		return Errorf("a value has more than %d lists and objects in one another", maxDepth)
	case m.left < 0:
		return b.tooLong()
	}
	return b.Spend(b.value - m.left)
}

// Fits returns an error if a text of a length would be too large for a value.
func (b *Budget) Fits(length int) error {
	if length < 0 || length > b.value {
		return b.tooLong()
	}
	return nil
}

func (b *Budget) tooLong() error {
	return Errorf("a value of more than %d KiB is not allowed", b.value>>10)
}

// maxDepth bounds how deeply lists and objects are nested.
const maxDepth = 64

// elementSize is what a value takes besides its text, in bytes.
const elementSize = 16

// measure counts the bytes of a value. A part that is referred to several times counts each
// time, because printing and comparing read it each time.
type measure struct {
	left int
	deep bool
}

func (m *measure) add(v reflect.Value, depth int) {
	m.left -= elementSize
	m.deep = m.deep || depth > maxDepth
	if m.left < 0 || m.deep {
		return
	}
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		m.add(v.Elem(), depth)
	case reflect.String:
		m.left -= v.Len()
	case reflect.Slice, reflect.Array:
		for i := 0; i < v.Len() && m.left >= 0; i++ {
			m.add(v.Index(i), depth+1)
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next() && m.left >= 0; {
			m.add(entries.Key(), depth+1)
			m.add(entries.Value(), depth+1)
		}
	}
}

// Replace replaces the first n occurrences of a text by another, all where n is negative.
func (b *Budget) Replace(text, old, replacement string, n int) (string, error) {
	count := strings.Count(text, old)
	if n >= 0 {
		count = min(count, n)
	}
	if err := b.Fits(len(text) + count*max(len(replacement)-len(old), 0)); err != nil {
		return "", err
	}
	return strings.Replace(text, old, replacement, n), nil
}

// Join puts texts together with a separator between them.
func (b *Budget) Join(texts []string, separator string) (string, error) {
	length := max(len(texts)-1, 0) * len(separator)
	for _, text := range texts {
		length += len(text)
	}
	if err := b.Fits(length); err != nil {
		return "", err
	}
	return strings.Join(texts, separator), nil
}

// maxCutset bounds the characters that Trim looks for, in bytes: each character of the text
// is compared with each of them.
const maxCutset = 64

// Trim takes characters off both ends of a text.
func (b *Budget) Trim(text, cutset string) (string, error) {
	if len(cutset) > maxCutset {
		return "", Errorf("more than %d bytes of characters to trim are not allowed", maxCutset)
	}
	return strings.Trim(text, cutset), nil
}

// Shorten bounds a text for people, in bytes: one that is too long ends with "…". The limit
// is 3 or more.
func Shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len("…")], "") + "…"
}

// Kind names what a value is for messages: "a text", "a number", "an object".
func Kind(value any) string {
	switch v := reflect.ValueOf(value); {
	case !v.IsValid():
		return "nothing"
	case v.Kind() == reflect.String:
		return "a text"
	case v.Kind() == reflect.Bool:
		return "a boolean"
	case v.Kind() == reflect.Map:
		return "an object"
	case v.Kind() == reflect.Slice, v.Kind() == reflect.Array:
		return "a list"
	case v.CanInt(), v.CanUint(), v.CanFloat():
		return "a number"
	default:
		return "a " + v.Kind().String()
	}
}
