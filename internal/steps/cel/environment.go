package cel

import (
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/parser"
)

var boolType = cel.BoolType

// maxNesting bounds how deeply the parts of an expression are nested.
const maxNesting = 60

// variables are the declared names and their types. Those with a dot are declared as a whole,
// so that each has its type, and that rollout itself is no value.
var variables = map[string]*cel.Type{
	"rollout.name": cel.StringType, "rollout.namespace": cel.StringType, "rollout.uid": cel.StringType,
	"rollout.labels": textMap, "rollout.annotations": textMap,
	"images.new": textMap, "images.old": textMap,
	"hash.new": cel.StringType, "hash.old": cel.StringType,
	"services.stable": cel.StringType, "services.canary": cel.StringType,
	"step.index": cel.IntType, "step.id": cel.StringType, "step.key": cel.StringType,
	"step.plugin": cel.StringType, "step.preset": cel.StringType,
	"weight": cel.IntType, "revision": cel.IntType,
	"abort.reason":    cel.StringType,
	"steps":           cel.MapType(cel.StringType, cel.MapType(cel.StringType, textMap)),
	"outputs":         textMap,
	"response.status": cel.IntType, "response.headers": textMap,
	"response.text": cel.StringType, "response.json": cel.DynType,
	objectName: cel.DynType,
}

// objectName is the name of an object of the cluster. Where there is none it is a name like any
// other, which an item of a list may have.
const objectName = "object"

var textMap = cel.MapType(cel.StringType, cel.StringType)

// environment is cel-go's environment, the same for all steps.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	options := []cel.EnvOption{
		cel.OptionalTypes(),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.EnableHiddenAccumulatorName(true),
		cel.ParserRecursionLimit(maxNesting),
		ext.Strings(ext.StringsVersion(2)),
		ext.Encoders(),
		cel.ClearMacros(),
		cel.Macros(macros()...),
		cel.Function(itemsFunction,
			cel.Overload("items_of_list", []*cel.Type{cel.ListType(cel.TypeParamType("T"))}, anyItems),
			cel.Overload("items_of_map", []*cel.Type{cel.MapType(cel.TypeParamType("K"), cel.TypeParamType("V"))}, anyItems)),
		cel.Function(rawFunction, cel.Overload(rawFunction, []*cel.Type{cel.DynType}, cel.DynType,
			cel.UnaryBinding(func(value ref.Val) ref.Val { return value }))),
	}
	for name, t := range variables {
		options = append(options, cel.Variable(name, t))
	}
	return cel.NewEnv(options...)
})

// anyItems is the type of what macros go through. Checking types that grow with each of 40
// macros in a row would take seconds.
var anyItems = cel.ListType(cel.DynType)

// macroNames are the macros. There is no optMap: it repeats what stands before it, so that a
// chain of 30 would be a billion nodes.
var macroNames = []string{"has", "all", "exists", "exists_one", "map", "filter"}

// macros are CEL's, over the items of a list or of an object.
func macros() []cel.Macro {
	all := []cel.Macro{cel.HasMacro}
	add := func(name string, args int, expand parser.MacroExpander) {
		all = append(all, cel.ReceiverMacro(name, args, func(eh cel.MacroExprFactory, target ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
			return expand(eh, eh.NewCall(itemsFunction, target), args)
		}))
	}
	add("all", 2, parser.MakeAll)
	add("exists", 2, parser.MakeExists)
	add("exists_one", 2, parser.MakeExistsOne)
	add("map", 2, parser.MakeMap)
	add("map", 3, parser.MakeMap)
	add("filter", 2, parser.MakeFilter)
	return all
}

// activation resolves the declared names in Vars, and has the meter of the evaluation.
type activation struct {
	vars  Vars
	meter meter
}

// Parent is none.
func (*activation) Parent() cel.Activation { return nil }

// ResolveName returns the value of a name.
func (a *activation) ResolveName(name string) (any, bool) {
	value, ok := a.vars.find(name)
	if err, isError := value.(error); isError {
		value = types.WrapErr(err)
	}
	return value, ok
}
