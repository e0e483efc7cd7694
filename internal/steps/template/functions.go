package template

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	texttemplate "text/template"

	"github.com/Masterminds/sprig/v3"

	"github.com/kedify/argo-rollouts-plugin/internal/steps/bound"
)

// callCost is what calling a function costs, besides its arguments and its result.
const callCost = 100

// ofSprig are functions of sprig whose time and memory are linear in the size of their
// arguments (sortAlpha: nearly).
var ofSprig = strings.Fields(`
	abbrev abbrevboth trunc trim trimPrefix trimSuffix upper lower title untitle substr
	nospace initials swapcase snakecase camelcase kebabcase contains hasPrefix hasSuffix
	quote squote cat plural toString sha1sum sha256sum sha512sum adler32sum
	int int64 float64 toDecimal add add1 sub mul div mod max min biggest
	maxf minf ceil floor round
	list tuple append push prepend first rest last initial reverse has slice concat chunk
	compact sortAlpha split splitn splitList toStrings
	mustAppend mustPush mustPrepend mustFirst mustRest mustLast mustInitial mustReverse
	mustHas mustSlice mustChunk mustCompact
	dict get hasKey dig pluck pick omit
	default empty coalesce all any ternary fail
	kindOf kindIs typeOf typeIs typeIsLike deepEqual
	toJson toPrettyJson toRawJson fromJson mustToJson mustToPrettyJson mustToRawJson
	mustFromJson b64enc b32enc urlParse urlJoin
	base dir clean ext isAbs osBase osDir osClean osExt osIsAbs
	regexQuoteMeta duration`)

// ofFloats are sprig's functions of decimal numbers. A result can have as many digits as all
// arguments together, so the number of arguments is bounded (maxFloats).
var ofFloats = strings.Fields("addf add1f subf mulf divf")

// ofPairs are sprig's functions that compare each item with every other.
var ofPairs = strings.Fields("uniq mustUniq without mustWithout")

// ofParts are functions that look at one part of an argument, so they do not pay for the
// whole: a Rollout may have annotations of 256 KiB.
var ofParts = append(strings.Fields("index get hasKey dig first mustFirst last mustLast default empty ternary"), fieldFunction, roundsFunction)

// ofGo are functions of text/template that do not read the content of their arguments, and
// comparisons, for which the compiler has inserted the payment.
var ofGo = strings.Fields("and or not len eq ne lt le gt ge")

// sprigs has sprig's functions by name.
var sprigs = sprig.HermeticTxtFuncMap()

// Functions returns the names of the functions that are offered, in alphabetical order.
func Functions() []string {
	names := slices.Concat(ofSprig, ofFloats, ofPairs, ofGo)
	for name := range own(nil) {
		if !strings.HasPrefix(name, "_") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

var offered = func() map[string]bool {
	all := map[string]bool{}
	for _, name := range Functions() {
		all[name] = true
	}
	return all
}()

func isOffered(name string) bool { return offered[name] }

// isElsewhere tells whether a function that is not offered exists in text/template or sprig.
func isElsewhere(name string) bool {
	_, inSprig := sprig.TxtFuncMap()[name]
	return inSprig || name == "call"
}

// functionsFor returns functions that pay for what they do from a budget.
func functionsFor(names []string, budget *bound.Budget) texttemplate.FuncMap {
	mine := own(budget)
	functions := texttemplate.FuncMap{}
	for _, name := range names {
		switch function, isMine := mine[name]; {
		case slices.Contains(ofGo, name):
		case isMine:
			functions[name] = paying(budget, name, function, nil)
		case slices.Contains(ofFloats, name):
			functions[name] = paying(budget, name, sprigs[name], fewFloats)
		case slices.Contains(ofPairs, name):
			functions[name] = paying(budget, name, sprigs[name], pairs)
		default:
			functions[name] = paying(budget, name, sprigs[mustVariant(name)], nil)
		}
	}
	return functions
}

// mustVariant returns the name of the variant of a sprig function that returns errors
// (mustToJson for toJson), or the same name if there is no such variant.
func mustVariant(name string) string {
	must := "must" + strings.ToUpper(name[:1]) + name[1:]
	if _, ok := sprigs[must]; ok {
		return must
	}
	return name
}

// paying wraps a function: the result pays for its arguments and its result, and fails if
// they are too large. check, if any, runs before the function and may charge more or fail.
func paying(budget *bound.Budget, name string, function any, check func(*bound.Budget, []any) error) any {
	parts := slices.Contains(ofParts, name)
	call := reflect.ValueOf(function)
	of := call.Type()
	var in []reflect.Type
	for i := range of.NumIn() {
		in = append(in, of.In(i))
	}
	failure := reflect.TypeFor[error]()
	withError := reflect.FuncOf(in, []reflect.Type{of.Out(0), failure}, of.IsVariadic())
	return reflect.MakeFunc(withError, func(args []reflect.Value) []reflect.Value {
		fail := func(err error) []reflect.Value {
			return []reflect.Value{reflect.Zero(of.Out(0)), reflect.ValueOf(&err).Elem()}
		}
		values := valuesOf(args, of.IsVariadic())
		err := budget.Spend(callCost)
		switch {
		case err != nil:
		case parts:
			err = payKeys(budget, values)
		default:
			err = budget.Take(values...)
		}
		if err == nil && check != nil {
			err = check(budget, values)
		}
		if err != nil {
			return fail(err)
		}
		var results []reflect.Value
		if of.IsVariadic() {
			results = call.CallSlice(args)
		} else {
			results = call.Call(args)
		}
		if len(results) == 2 && !results[1].IsNil() {
			return fail(results[1].Interface().(error))
		}
		if !parts {
			if err := budget.Take(results[0].Interface()); err != nil {
				return fail(err)
			}
		}
		return []reflect.Value{results[0], reflect.Zero(failure)}
	}).Interface()
}

// payKeys pays for the texts among the arguments of a function of ofParts: they may be keys.
func payKeys(budget *bound.Budget, values []any) error {
	for _, value := range values {
		text, _ := value.(string)
		if err := budget.Spend(len(text)); err != nil {
			return err
		}
	}
	return nil
}

// valuesOf returns the arguments of a call one by one.
func valuesOf(args []reflect.Value, variadic bool) []any {
	var values []any
	for i, arg := range args {
		if variadic && i == len(args)-1 {
			for j := range arg.Len() {
				values = append(values, arg.Index(j).Interface())
			}
			continue
		}
		values = append(values, arg.Interface())
	}
	return values
}

// maxFloats bounds the arguments of a function of decimal numbers.
const maxFloats = 8

func fewFloats(_ *bound.Budget, values []any) error {
	if len(values) > maxFloats {
		return bound.Errorf("more than %d numbers are not allowed", maxFloats)
	}
	return nil
}

// pairCost is what comparing two items takes.
const pairCost = 10

// pairs pays for comparing each item with every other.
func pairs(budget *bound.Budget, values []any) error {
	list := reflect.ValueOf(values[0])
	if kind := list.Kind(); kind != reflect.Slice && kind != reflect.Array {
		return nil // the function says what is wrong
	}
	others := max(list.Len(), len(values))
	return budget.Spend(list.Len() * others * pairCost)
}

// rounds returns a function that pays for the iterations of a loop over a value.
func rounds(budget *bound.Budget) func(int, any) (any, error) {
	return func(nodes int, over any) (any, error) {
		count := 0
		switch v := reflect.ValueOf(over); v.Kind() {
		case reflect.Slice, reflect.Array, reflect.Map:
			count = v.Len()
		case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
			count = int(min(v.Int(), math.MaxInt32))
		case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			count = int(min(v.Uint(), math.MaxInt32))
		case reflect.Invalid:
			return nil, nil
		default:
			return nil, fmt.Errorf("range: want a list, an object or a whole number, not %s", bound.Kind(over))
		}
		return over, budget.Spend(max(count, 0) * nodes * nodeCost)
	}
}

// shown returns a value that is to be printed; nil is an error.
func shown(value any) (any, error) {
	if value == nil {
		return nil, errors.New("there is no value: default gives one in its place")
	}
	return value, nil
}

// sortedKeys returns the keys of a map in order.
func sortedKeys(object map[string]any) []string { return slices.Sorted(maps.Keys(object)) }
