package expression

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"

	"github.com/kedify/argo-rollouts-plugin/internal/nearest"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/bound"
)

// overItems are the functions that evaluate a predicate for each item of their first
// argument.
var overItems = strings.Fields("all any none one filter map count find findIndex findLast findLastIndex groupBy sortBy reduce sum")

// ofParts are the functions that look at only a part of their first argument.
var ofParts = strings.Fields("len first last get take type")

// ofWhole are the functions whose time and memory are linear in the size of their arguments
// (sort: nearly).
var ofWhole = strings.Fields(`abs ceil floor round int float string trimPrefix trimSuffix
	upper lower split indexOf lastIndexOf hasPrefix hasSuffix max min mean median toJSON
	fromJSON toBase64 fromBase64 concat flatten reverse sort`)

// Functions returns the names of the functions that are offered, in alphabetical order.
func Functions() []string {
	names := slices.Concat(overItems, ofParts, ofWhole, slices.Collect(maps.Keys(replaced)))
	slices.Sort(names)
	return names
}

// parse reads an expression's syntax.
func parse(text string) (*parser.Tree, error) {
	config := conf.CreateNew()
	config.MaxNodes = maxNodes
	return parser.ParseWithConfig(text, config)
}

// inspect returns the names that an expression refers to and how many nodes it has, or an
// error if it uses something that is not offered.
func inspect(tree *parser.Tree) (names []string, nodes int, err error) {
	i := inspector{source: tree.Source, variables: map[string]bool{}, names: map[string]bool{}}
	ast.Walk(&tree.Node, &i)
	for name := range i.variables {
		delete(i.names, name)
	}
	return slices.Sorted(maps.Keys(i.names)), i.nodes, i.err
}

type inspector struct {
	source           file.Source
	variables, names map[string]bool
	nodes            int
	err              error
}

// Visit looks at one node. ast.Walk calls it for the parts of a node before the node.
func (i *inspector) Visit(node *ast.Node) {
	i.nodes++
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		if n.Value == "$env" {
			i.problem(n, "$env is not offered")
		}
		i.names[n.Value] = true
	case *ast.VariableDeclaratorNode:
		i.variables[n.Name] = true
	case *ast.BuiltinNode:
		if !slices.Contains(Functions(), n.Name) {
			i.problem(n, "function %s is not offered", n.Name)
		}
	case *ast.CallNode:
		callee, ok := n.Callee.(*ast.IdentifierNode)
		if !ok {
			i.problem(n, "there are no methods")
			return
		}
		if _, elsewhere := builtin.Index[callee.Value]; elsewhere || len(callee.Value) > maxSuggested {
			i.problem(n, "function %s is not offered", bound.Shorten(callee.Value, maxSuggested))
			return
		}
		i.problem(n, "there is no function %s: did you mean %s?", callee.Value, nearest.Word(callee.Value, Functions()))
	case *ast.BinaryNode:
		// expr compiles a constant pattern with the expression, however long that takes.
		if constant, ok := n.Right.(*ast.StringNode); ok && n.Operator == "matches" {
			if err := bound.CheckPattern(constant.Value); err != nil {
				i.problem(n.Right, "%s", err)
			}
		}
	}
}

// problem records an error; only the first one is kept.
func (i *inspector) problem(at ast.Node, format string, args ...any) {
	if i.err == nil {
		err := &file.Error{Location: at.Location(), Message: fmt.Sprintf(format, args...)}
		i.err = err.Bind(i.source)
	}
}
