package settings

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
)

// row is a setting, or a variable or flag of KEDA's or Kedify's charts without effect.
type row struct {
	// flag is without its dashes. A row has a flag, a variable or both. The flag takes
	// precedence.
	flag, variable string
	// value points to the setting; its type says how texts are parsed. What it points
	// to is the default.
	value any
	usage string // in Markdown

	// least and most bound a number, or a duration in nanoseconds. most is 0 for no
	// bound. With orZero 0 is accepted, too. A port is from 1 to 65535.
	least, most int64
	orZero      bool
	unit        string // of a number
	// oneOf and accepts limit what a text may be, and expected describes it.
	oneOf    []string
	accepts  func(string) bool
	expected string

	// idle returns why the variable has no effect beside the other settings; "" if it
	// has one. nil is for a variable that always has one.
	idle func() string
	// noEffect is why the variable or flag never has an effect; empty for a setting.
	noEffect string
}

// newFlag returns a flag that sets the value. Flags of rows without a flag are set by
// their variable alone.
func (r *row) newFlag() *pflag.Flag {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	name, usage := cmp.Or(r.flag, r.variable), strings.ReplaceAll(r.usage, "`", "") // pflag takes what is quoted for the name of a value
	if r.flag != "" && r.variable != "" {
		usage += " (" + r.variable + ")"
	}
	switch v := r.value.(type) {
	case nil:
		f.String(name, "", usage)
	case *bool:
		f.BoolVar(v, name, *v, usage)
	case *string:
		f.StringVar(v, name, *v, usage)
	case *time.Duration:
		f.DurationVar(v, name, *v, usage)
	case *int:
		f.IntVar(v, name, *v, usage)
	case *int64:
		f.Int64Var(v, name, *v, usage)
	case *uint16:
		f.Uint16Var(v, name, *v, usage)
	case *uint32:
		f.Uint32Var(v, name, *v, usage)
	case *net.IP:
		f.IPVar(v, name, *v, usage)
	default:
		panic(fmt.Sprintf("setting %s has a value of type %T", name, v))
	}
	flag := f.Lookup(name)
	flag.Hidden = r.noEffect != ""
	flag.Value = checked{flag.Value, r}
	return flag
}

// checked is a value that refuses what is not expected.
type checked struct {
	pflag.Value
	row *row
}

// Set sets the value. The error says what is expected.
func (c checked) Set(text string) error {
	if c.Value.Set(text) == nil && c.row.valid(text) {
		return nil
	}
	expected := c.row.accepted()
	if _, is := c.row.value.(*time.Duration); is {
		expected = "a duration such as 500ms or 20s, " + expected
	}
	return errors.New("expected " + strings.ReplaceAll(expected, "`", ""))
}

// valid tells whether the value, which was parsed from a text, is in range.
func (r *row) valid(text string) bool {
	within := func(n int64) bool { return n >= r.least && (r.most == 0 || n <= r.most) || n == 0 && r.orZero }
	switch v := r.value.(type) {
	case *string:
		return (r.oneOf == nil || slices.Contains(r.oneOf, text)) && (r.accepts == nil || r.accepts(text))
	case *time.Duration:
		return within(int64(*v))
	case *int:
		return within(int64(*v))
	case *int64:
		return within(*v)
	case *uint16:
		return *v > 0
	case *uint32:
		return within(int64(*v))
	default:
		return true
	}
}

// accepted describes the values that are accepted, in Markdown; "" is for any text.
func (r *row) accepted() string {
	var text string
	switch r.value.(type) {
	case *bool:
		return "true or false"
	case *uint16:
		return "a port from 1 to 65535"
	case *string:
		if n := len(r.oneOf); n > 0 {
			return strings.Join(r.oneOf[:n-1], ", ") + " or " + r.oneOf[n-1]
		}
		return r.expected
	case *time.Duration:
		least, most := time.Duration(r.least), time.Duration(r.most)
		text = least.String() + " or more"
		if least == 1 {
			text = "more than 0s"
		}
		if most > 0 {
			text = fmt.Sprintf("%v to %v", least, most)
		}
	case *int, *int64, *uint32:
		text = fmt.Sprintf("%d or more %s", r.least, r.unit)
		if r.most > 0 {
			text = fmt.Sprintf("%d to %d %s", r.least, r.most, r.unit)
		}
	case *net.IP:
		return "an IP address such as 0.0.0.0 or ::"
	}
	if r.orZero {
		text += ", or 0"
	}
	return text
}

// isService tells whether a text is the name of a Service, with a namespace or without,
// or empty.
func isService(text string) bool {
	parts := strings.Split(text, "/")
	return text == "" || len(parts) <= 2 && !slices.ContainsFunc(parts, func(part string) bool { return len(validation.IsDNS1123Label(part)) > 0 })
}

// isListenAddress tells whether a text is host:port, where the host may be left out, or
// empty.
func isListenAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	n, notNumber := strconv.ParseUint(port, 10, 16)
	return text == "" || err == nil && notNumber == nil && n > 0
}
