package cel

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// price charges for a call before it is made, besides the unit that each call costs. It may
// put other values in place of the arguments.
type price func(m *meter, args []ref.Val)

// function is what is known of a function that is offered.
type function struct {
	price price
	// own is used in place of cel-go's.
	own func(m *meter, args []ref.Val) ref.Val
}

// Names of functions that the package puts into expressions or adds to them.
const (
	rawFunction   = "raw"
	itemsFunction = "@items"
)

// offered are the functions and operators that there are. Others of cel-go are not offered, as
// nothing bounds what they do: format has precisions of any size.
var offered = map[string]function{
	operators.Equals:    {equalPrice, func(_ *meter, args []ref.Val) ref.Val { return types.Equal(args[0], args[1]) }},
	operators.NotEquals: {equalPrice, func(_ *meter, args []ref.Val) ref.Val { return types.Bool(types.Equal(args[0], args[1]) != types.True) }},
	operators.Less:      {}, operators.LessEquals: {}, operators.Greater: {}, operators.GreaterEquals: {},
	operators.LogicalNot: {}, operators.NotStrictlyFalse: {}, operators.Negate: {}, operators.Modulo: {},
	operators.Subtract: {price: numberPrice}, operators.Multiply: {price: numberPrice}, operators.Divide: {price: numberPrice},
	operators.Add: {addPrice, nil},
	operators.In:  {price: inPrice},

	"size": {price: linearPrice}, "type": {}, "dyn": {},
	"string": {price: linearPrice}, "bytes": {price: linearPrice},
	"bool": {price: parsePrice}, "int": {price: parsePrice}, "uint": {price: parsePrice}, "double": {price: parsePrice},
	"timestamp": {price: parsePrice}, "duration": {price: parsePrice},

	"contains": {price: linearPrice}, "startsWith": {}, "endsWith": {}, "matches": {nil, matches},
	"trim": {price: linearPrice}, "charAt": {price: runesPrice}, "substring": {price: runesPrice},
	"lowerAscii": {price: runesPrice}, "upperAscii": {price: runesPrice}, "strings.quote": {price: runesPrice},
	"indexOf": {price: searchPrice}, "lastIndexOf": {price: searchPrice},
	"replace": {price: replacePrice}, "split": {price: splitPrice}, "join": {price: joinPrice},
	"base64.encode": {price: runesPrice}, "base64.decode": {price: runesPrice},

	"getFullYear": timePart, "getMonth": timePart, "getDate": timePart, "getDayOfMonth": timePart, "getDayOfWeek": timePart,
	"getDayOfYear": timePart, "getHours": timePart, "getMinutes": timePart, "getSeconds": timePart, "getMilliseconds": timePart,

	"optional.of": {}, "optional.none": {}, "optional.ofNonZeroValue": {}, "value": {}, "hasValue": {}, "or": {}, "orValue": {},

	rawFunction: {}, itemsFunction: {nil, items},
}

// Functions returns the names of the functions and macros that are offered, in alphabetical
// order.
func Functions() []string {
	names := slices.Clone(macroNames)
	for name := range offered {
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.0123456789") == "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// overloads are cel-go's implementations by the name of the function, or of one overload.
var overloads = sync.OnceValue(func() map[string]*functions.Overload {
	all := map[string]*functions.Overload{}
	env, err := environment()
	if err != nil {
		return all
	}
	for name := range maps.Keys(offered) {
		bindings, err := env.Functions()[name].Bindings()
		if err != nil {
			continue
		}
		for _, binding := range bindings {
			all[binding.Operator] = binding
		}
	}
	return all
})

// lengthOf is the length of a text, in bytes.
func lengthOf(value ref.Val) int {
	switch value := value.(type) {
	case types.String:
		return len(value)
	case types.Bytes:
		return len(value)
	}
	return 0
}

func sum(args []ref.Val) (bytes int) {
	for _, arg := range args {
		bytes += lengthOf(arg)
	}
	return bytes
}

// linearPrice is that of a function that reads or copies its texts once.
func linearPrice(m *meter, args []ref.Val) { m.made(sum(args)) }

// runesPrice is that of a function that copies its texts as characters of four bytes.
func runesPrice(m *meter, args []ref.Val) { m.made(6 * sum(args)) }

// parsePrice is that of a function that quotes its text in its error.
func parsePrice(m *meter, args []ref.Val) { m.charge(sum(args)) }

// searchPrice is that of a function that compares each place of a text with another.
func searchPrice(m *meter, args []ref.Val) {
	runesPrice(m, args)
	if len(args) > 1 {
		m.charge(lengthOf(args[0]) * lengthOf(args[1]) / 256)
	}
}

// timePart is a part of a time, for which a time zone may have to be read: its name becomes
// that of a file.
var timePart = function{price: func(m *meter, args []ref.Val) {
	parsePrice(m, args)
	m.charge(200 * (len(args) - 1))
}}

// numberPrice is that of arithmetic. An int and a double become two doubles: JSON has one type
// for both, and an answer may say 1 today and 0.98 tomorrow.
func numberPrice(_ *meter, args []ref.Val) {
	for i, other := range []int{1, 0} {
		if n, isInt := args[i].(types.Int); isInt && args[other].Type() == types.DoubleType {
			args[i] = types.Double(n)
		}
	}
}

// addPrice is that of +. Lists become one new list: cel-go's would read through all that it
// was put together from.
func addPrice(m *meter, args []ref.Val) {
	numberPrice(m, args)
	m.made(sum(args))
	left, isList := args[0].(traits.Lister)
	right, areLists := args[1].(traits.Lister)
	if !isList || !areLists {
		return
	}
	m.charge(sizeOf(right))
	if _, grows := left.(traits.MutableLister); grows {
		return // The list that a macro makes.
	}
	m.charge(sizeOf(left))
	all := make([]ref.Val, 0, sizeOf(left)+sizeOf(right))
	for _, list := range []traits.Lister{left, right} {
		for i := range sizeOf(list) {
			all = append(all, list.Get(types.Int(i)))
		}
	}
	args[0], args[1] = types.NewRefValList(types.DefaultTypeAdapter, all), types.NewRefValList(types.DefaultTypeAdapter, nil)
}

func sizeOf(of traits.Sizer) int { return int(of.Size().(types.Int)) }

// equalPrice is that of comparing two values: texts are paid for as they are mentioned.
func equalPrice(m *meter, args []ref.Val) {
	switch args[1].(type) {
	case traits.Lister, traits.Mapper, *types.Optional:
		m.deep(args[0], 0)
	}
}

// deep charges for reading all of a value. What is referred to several times counts each time.
func (m *meter) deep(value ref.Val, depth int) {
	m.charge(1 + depth/maxDepth*maxWork)
	m.mention(value)
	switch value := value.(type) {
	case *types.Optional:
		if value.HasValue() {
			m.deep(value.GetValue(), depth+1)
		}
	case traits.Lister:
		for i := range sizeOf(value) {
			m.deep(value.Get(types.Int(i)), depth+1)
		}
	case traits.Mapper:
		for keys := value.Iterator(); keys.HasNext() == types.True; {
			key := keys.Next()
			m.mention(key)
			m.deep(value.Get(key), depth+1)
		}
	}
}

// inPrice is that of comparing a value with each item of a list.
func inPrice(m *meter, args []ref.Val) {
	list, ok := args[1].(traits.Lister)
	if !ok || sizeOf(list) == 0 {
		return
	}
	before := m.left
	m.deep(args[0], 0)
	m.charge((before - m.left) * (sizeOf(list) - 1))
}

// items returns what a macro goes through: the items of a list, or the keys of an object in
// order.
func items(m *meter, args []ref.Val) ref.Val {
	switch of := args[0].(type) {
	case traits.Lister:
		return of
	case traits.Mapper:
		m.charge(4 * sizeOf(of))
		var keys []ref.Val
		for all := of.Iterator(); all.HasNext() == types.True; {
			key := all.Next()
			m.mention(key)
			keys = append(keys, key)
		}
		slices.SortFunc(keys, compareKeys)
		return types.NewRefValList(types.DefaultTypeAdapter, keys)
	}
	return types.NoSuchOverloadErr()
}

func compareKeys(a, b ref.Val) int {
	comparer, ok := a.(traits.Comparer)
	if !ok {
		return 0
	}
	order, _ := comparer.Compare(b).(types.Int)
	return int(order)
}

func replacePrice(m *meter, args []ref.Val) {
	linearPrice(m, args[:3])
	text, old, replacement, ok := texts3(args)
	if !ok {
		return
	}
	count := strings.Count(text, old)
	if len(args) > 3 {
		if n, isInt := args[3].(types.Int); isInt && n >= 0 {
			count = int(min(n, types.Int(count)))
		}
	}
	m.made(count * len(replacement))
}

func texts3(args []ref.Val) (a, b, c string, ok bool) {
	first, ok1 := args[0].(types.String)
	second, ok2 := args[1].(types.String)
	third, ok3 := args[2].(types.String)
	return string(first), string(second), string(third), ok1 && ok2 && ok3
}

func splitPrice(m *meter, args []ref.Val) {
	linearPrice(m, args[:2])
	text, isText := args[0].(types.String)
	separator, isSeparator := args[1].(types.String)
	if isText && isSeparator {
		m.charge(strings.Count(string(text), string(separator)))
	}
}

// joinPrice pays twice for the result, which grows as it is made.
func joinPrice(m *meter, args []ref.Val) {
	list, ok := args[0].(traits.Lister)
	if !ok {
		return
	}
	m.charge(sizeOf(list))
	separator := sum(args[1:])
	bytes := 0
	for i := range sizeOf(list) {
		bytes += lengthOf(list.Get(types.Int(i))) + separator
	}
	m.made(3 * bytes)
}
