package cel

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"sigs.k8s.io/json"
)

// FromJSON returns the value of JSON for Vars: numbers without a fraction are int64, so that
// none loses digits that it has.
func FromJSON(data []byte) (any, error) {
	var value any
	if bytes.Count(data, []byte("{")) > maxObjects {
		return nil, fmt.Errorf("more than %d objects are not allowed", maxObjects)
	}
	err := json.UnmarshalCaseSensitivePreserveInts(data, &value)
	return value, err
}

// ValuesIn returns how many values a JSON text has, or somewhat more.
func ValuesIn(body []byte) int {
	if !stdjson.Valid(body) {
		return 0
	}
	n, inString := 1, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case !inString && (c == ',' || c == '{' || c == '['):
			n++
		}
	}
	return n
}

// maxObjects bounds the objects of an answer: one of 7 bytes takes 350 in memory.
const maxObjects = 64 << 10

// textOf returns a text, a number or a boolean as a text. Numbers below 1e21 have no exponent.
func textOf(value ref.Val) (string, error) {
	switch v := value.(type) {
	case types.String:
		return string(v), nil
	case types.Bool, types.Int, types.Uint:
		return fmt.Sprint(v.Value()), nil
	case types.Double:
		format := byte('f')
		if math.Abs(float64(v)) >= 1e21 {
			format = 'g'
		}
		return strconv.FormatFloat(float64(v), format, -1, 64), nil
	}
	t, _ := value.Type().(*cel.Type)
	return "", noText(t)
}

// noText says that a value of a type is no text.
func noText(t *cel.Type) error {
	if t.TypeName() == types.OptionalType.TypeName() {
		return errMissing
	}
	return fmt.Errorf("want a text, a number or a boolean, not %s", kindOfType(t))
}

var errMissing = errors.New(`the value may be missing: .orValue("none") says what then`)

// nativeOf returns a value as JSON has it. left is how many more bytes it may have: what is
// referred to several times counts each time.
func nativeOf(value ref.Val, left *int, depth int) (any, error) {
	*left -= lengthOf(value) + 1
	switch {
	case depth > maxDepth:
		return nil, fmt.Errorf("a value has more than %d lists and objects in one another", maxDepth)
	case *left < 0:
		return nil, fmt.Errorf("a value of more than %d KiB is not allowed", maxText>>10)
	}
	switch v := value.(type) {
	case types.String, types.Bool, types.Int, types.Uint:
		return v.Value(), nil
	case types.Double:
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return nil, fmt.Errorf("JSON has no such number")
		}
		return float64(v), nil
	case types.Null:
		return nil, nil
	case types.Timestamp, types.Duration:
		return string(v.ConvertToType(types.StringType).(types.String)), nil
	case traits.Lister:
		list := []any{}
		for items := v.Iterator(); items.HasNext() == types.True; {
			item, err := nativeOf(items.Next(), left, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, item)
		}
		return list, nil
	case traits.Mapper:
		object := map[string]any{}
		for keys := v.Iterator(); keys.HasNext() == types.True; {
			key := keys.Next()
			name, ok := key.(types.String)
			if !ok {
				return nil, fmt.Errorf("the keys of an object are texts, not %s", kindOf(key))
			}
			item, err := nativeOf(v.Get(key), left, depth+1)
			if err != nil {
				return nil, err
			}
			object[string(name)] = item
			*left -= len(name)
		}
		return object, nil
	case *types.Optional:
		return nil, errMissing
	}
	return nil, fmt.Errorf("JSON has no %s", kindOf(value))
}

// maxDepth bounds how deeply the lists and objects of a value are nested.
const maxDepth = 64

// kinds are the types as messages name them.
var kinds = map[types.Kind]string{
	types.StringKind: "a text", types.BoolKind: "a boolean", types.IntKind: "a number", types.UintKind: "a number",
	types.DoubleKind: "a number", types.NullTypeKind: "nothing", types.ListKind: "a list", types.MapKind: "an object",
	types.BytesKind: "bytes", types.TimestampKind: "a time", types.DurationKind: "a duration", types.TypeKind: "a type",
}

func kindOf(value ref.Val) string {
	t, _ := value.Type().(*cel.Type)
	return kindOfType(t)
}

func kindOfType(t *cel.Type) string {
	switch {
	case t != nil && t.TypeName() == types.OptionalType.TypeName():
		return "a value that may be missing"
	case t == nil || kinds[t.Kind()] == "":
		return "a value of another type"
	}
	return kinds[t.Kind()]
}

// kind is what the expression's value is, for messages.
func (x *Expression) kind() string { return kindOfType(x.result) }
