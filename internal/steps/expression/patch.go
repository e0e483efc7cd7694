package expression

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"

	"github.com/kedify/argo-rollouts-plugin/internal/steps/bound"
)

// Names that no author can write.
const (
	// budgetName is the budget of an evaluation.
	budgetName = " budget"
	// takeName is the function that pays for a value that is read whole.
	takeName = " take"
	// partName is the function that pays for a value of which a part is read: for the length
	// of a text, because its characters are counted, and nothing for other values.
	partName = " part"
	// roundsName is the function that pays for each evaluation of a predicate.
	roundsName = " rounds"
)

const (
	// nodeCost is what evaluating a node costs.
	nodeCost = 20
	// roundCost is what one evaluation of a predicate costs besides its nodes, sorting
	// included.
	roundCost = 50
)

// replaced are the functions whose result or cost is not bounded by the size of their
// arguments, or that return keys in random order.
var replaced = map[string]func(*bound.Budget, []any) (any, error){
	"trim": func(b *bound.Budget, args []any) (any, error) {
		texts, err := textsOf("trim", args, 1, 2)
		if err != nil {
			return nil, err
		}
		if len(texts) == 1 {
			return b.Trim(texts[0], " \t\r\n\v\f")
		}
		return b.Trim(texts[0], texts[1])
	},
	"replace": func(b *bound.Budget, args []any) (any, error) {
		texts, err := textsOf("replace", args, 3, 3)
		if err != nil {
			return nil, err
		}
		return b.Replace(texts[0], texts[1], texts[2], -1)
	},
	"join": func(b *bound.Budget, args []any) (any, error) {
		if len(args) == 0 || len(args) > 2 {
			return nil, fmt.Errorf("join: want a list and a separator, not %d arguments", len(args))
		}
		list := reflect.ValueOf(args[0])
		if kind := list.Kind(); kind != reflect.Slice && kind != reflect.Array {
			return nil, fmt.Errorf("join: want a list, not %s", bound.Kind(args[0]))
		}
		var items []any
		for i := range list.Len() {
			items = append(items, list.Index(i).Interface())
		}
		texts, err := textsOf("join", items, 0, len(items))
		if err != nil {
			return nil, err
		}
		separator, err := textsOf("join", args[1:], 0, 1)
		if err != nil {
			return nil, err
		}
		return b.Join(texts, slices.Concat(separator, []string{""})[0])
	},
	"keys": func(_ *bound.Budget, args []any) (any, error) {
		object, err := objectOf("keys", args)
		var keys []any
		for _, key := range slices.Sorted(maps.Keys(object)) {
			keys = append(keys, key)
		}
		return keys, err
	},
	"values": func(_ *bound.Budget, args []any) (any, error) {
		object, err := objectOf("values", args)
		var values []any
		for _, key := range slices.Sorted(maps.Keys(object)) {
			values = append(values, object[key])
		}
		return values, err
	},
}

// matches is the operator of regular expressions. It is false if either side is nil, as in
// expr.
func matches(b *bound.Budget, args []any) (any, error) {
	if args[0] == nil || args[1] == nil {
		return false, nil
	}
	texts, err := textsOf("matches", args, 2, 2)
	if err != nil {
		return nil, err
	}
	return b.Match(texts[0], texts[1])
}

// textsOf returns values as texts; a value that is no text is an error.
func textsOf(name string, args []any, least, most int) ([]string, error) {
	if len(args) < least || len(args) > most {
		return nil, fmt.Errorf("%s: want %d to %d values, not %d", name, least, most, len(args))
	}
	texts := make([]string, len(args))
	for i, arg := range args {
		text, ok := arg.(string)
		if !ok {
			return nil, fmt.Errorf("%s: want a text, not %s", name, bound.Kind(arg))
		}
		texts[i] = text
	}
	return texts, nil
}

// objectOf returns the one argument of a function as an object; anything else is an error.
func objectOf(name string, args []any) (map[string]any, error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("%s: want one object, not %d", name, len(args))
	}
	v := reflect.ValueOf(args[0])
	if v.Kind() != reflect.Map {
		return nil, fmt.Errorf("%s: want an object, not %s", name, bound.Kind(args[0]))
	}
	object := make(map[string]any, v.Len())
	for entries := v.MapRange(); entries.Next(); {
		object[fmt.Sprint(entries.Key().Interface())] = entries.Value().Interface()
	}
	return object, nil
}

// options make expr compile an expression that pays for what it does. The optimizer is off,
// as it evaluates constants of any size.
func options() []expr.Option {
	all := []expr.Option{
		expr.MaxNodes(maxNodes),
		expr.Optimize(false),
		expr.Patch(patcher{}),
		function(takeName, func(b *bound.Budget, args []any) (any, error) {
			return args[0], b.Take(args[0])
		}),
		function(partName, func(b *bound.Budget, args []any) (any, error) {
			text, _ := args[0].(string)
			return args[0], b.Spend(len(text))
		}),
		function(roundsName, func(b *bound.Budget, args []any) (any, error) {
			nodes, _ := args[0].(int)
			count := 0
			if v := reflect.ValueOf(args[1]); v.Kind() == reflect.Slice || v.Kind() == reflect.Array || v.Kind() == reflect.Map {
				count = v.Len()
			}
			return args[1], b.Spend(count * (nodes*nodeCost + roundCost))
		}),
		function(" matches", matches),
	}
	for name, replacement := range replaced {
		all = append(all, function(" "+name, replacement))
	}
	return all
}

// function registers a function whose first argument is the budget.
func function(name string, f func(*bound.Budget, []any) (any, error)) expr.Option {
	return expr.Function(name, func(args ...any) (any, error) {
		budget, ok := args[0].(*bound.Budget)
		if !ok {
			return nil, fmt.Errorf("no budget, but %T", args[0])
		}
		return f(budget, args[1:])
	})
}

// patcher puts calls into an expression that pay for what it does.
type patcher struct{}

// Visit changes one node. ast.Walk calls it for the parts of a node before the node.
func (patcher) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.BinaryNode:
		switch n.Operator {
		case "and", "&&", "or", "||", "??":
			return // They look at a boolean, or at whether there is a value.
		case "matches":
			*node = call(n, " matches", take(n.Left), take(n.Right))
			return
		}
		n.Left, n.Right = take(n.Left), take(n.Right)
	case *ast.MemberNode:
		n.Property = take(n.Property)
	case *ast.PredicateNode:
		n.Node = take(n.Node)
	case *ast.BuiltinNode:
		if slices.Contains(overItems, n.Name) && len(n.Arguments) > 0 {
			nodes := 0
			for _, arg := range n.Arguments[1:] {
				nodes += count(arg)
			}
			n.Arguments[0] = call(n, roundsName, at(n, &ast.IntegerNode{Value: nodes}), n.Arguments[0])
			return
		}
		parts := slices.Contains(ofParts, n.Name)
		for i, arg := range n.Arguments {
			if parts && i == 0 {
				n.Arguments[i] = call(n, partName, arg)
			} else {
				n.Arguments[i] = take(arg)
			}
		}
		switch _, isReplaced := replaced[n.Name]; {
		case isReplaced:
			*node = take(call(n, " "+n.Name, n.Arguments...))
		case !parts:
			*node = take(n)
		}
	}
}

// take returns a node that pays for a value that is read whole. Constants have been paid for
// as nodes of the expression.
func take(of ast.Node) ast.Node {
	switch of.(type) {
	case *ast.NilNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.StringNode:
		return of
	}
	return call(of, takeName, of)
}

// call returns a call of one of the functions that take the budget.
func call(from ast.Node, name string, args ...ast.Node) ast.Node {
	budget := at(from, &ast.IdentifierNode{Value: budgetName})
	return at(from, &ast.CallNode{
		Callee:    at(from, &ast.IdentifierNode{Value: name}),
		Arguments: append([]ast.Node{budget}, args...),
	})
}

// at gives a node the location of another.
func at(from, node ast.Node) ast.Node {
	node.SetLocation(from.Location())
	return node
}

// count returns how many nodes there are under a node.
func count(node ast.Node) int {
	var c counter
	ast.Walk(&node, &c)
	return c.nodes
}

type counter struct{ nodes int }

// Visit counts a node.
func (c *counter) Visit(*ast.Node) { c.nodes++ }
