package cel

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/kedify/argo-rollouts-plugin/internal/nearest"
)

// References are what an expression or a text refers to, each in alphabetical order.
type References struct {
	// Names are declared names, as "images.old" and "response.json".
	Names []string
	// Outputs are names of the step's own outputs, Steps the ids of steps.
	Outputs, Steps []string
}

// Uses tells whether a declared name is among them, or a part of it: "response" for any part
// of the response.
func (r References) Uses(name string) bool {
	return slices.ContainsFunc(r.Names, func(used string) bool {
		return used == name || strings.HasPrefix(used, name+".")
	})
}

func (r *References) add(other References) {
	if other.Names == nil {
		return // a part or name of an output or a step is one, too
	}
	for _, pair := range []struct{ to, from *[]string }{{&r.Names, &other.Names}, {&r.Outputs, &other.Outputs}, {&r.Steps, &other.Steps}} {
		*pair.to = slices.Compact(slices.Sorted(slices.Values(slices.Concat(*pair.to, *pair.from))))
	}
}

// find returns the value of a declared name.
func (v Vars) find(name string) (any, bool) {
	root, part, dotted := strings.Cut(name, ".")
	value, ok := v[root]
	if !dotted || !ok {
		return value, ok
	}
	parts, _ := value.(map[string]any)
	value, ok = parts[part]
	return value, ok
}

// names finds the names in an expression.
type names struct {
	Declarations
	found References
	err   error
	// lenient goes on after an error.
	lenient bool
	// parts counts the calls, keys, lists and objects.
	parts int
}

// in returns what an expression refers to, and the number of its parts, or an error for a name
// that is not declared.
func (n names) in(expr ast.Expr) (References, int, error) {
	n.found = References{}
	n.visit(expr, nil)
	var all References
	all.add(n.found)
	return all, n.parts, n.err
}

// visit looks at an expression in which some names are variables of macros.
func (n *names) visit(expr ast.Expr, local []string) {
	if n.err != nil && !n.lenient {
		return
	}
	n.parts++
	if root, path, ok := chain(expr); ok {
		n.parts += len(path)
		if !slices.Contains(local, root) {
			n.err = n.check(root, path)
		}
		return
	}
	switch expr.Kind() {
	case ast.SelectKind:
		n.visit(expr.AsSelect().Operand(), local)
	case ast.CallKind:
		call := expr.AsCall()
		if n.err = n.call(call); n.err != nil && !n.lenient {
			return
		}
		if call.IsMemberFunction() && !isNamespace(call) {
			n.visit(call.Target(), local)
		}
		for _, arg := range call.Args() {
			n.visit(arg, local)
		}
	case ast.ListKind:
		for _, element := range expr.AsList().Elements() {
			n.visit(element, local)
		}
	case ast.MapKind:
		for _, entry := range expr.AsMap().Entries() {
			n.visit(entry.AsMapEntry().Key(), local)
			n.visit(entry.AsMapEntry().Value(), local)
		}
	case ast.StructKind:
		n.err = fmt.Errorf("there are no types of objects: an object is written {%q: …}", "key")
	case ast.ComprehensionKind:
		c := expr.AsComprehension()
		if name := c.IterVar(); (variables[name] != nil || len(partsOf(name)) > 0) && (name != objectName || n.Object) {
			// cel-go takes step.id for the declared name, even where step is an item.
			n.err = fmt.Errorf("%s is a declared name: name the item otherwise", name)
		}
		n.visit(c.IterRange(), local)
		n.visit(c.AccuInit(), local)
		inner := append(slices.Clone(local), c.IterVar(), c.IterVar2(), c.AccuVar())
		for _, part := range []ast.Expr{c.LoopCondition(), c.LoopStep(), c.Result()} {
			n.visit(part, inner)
		}
	}
}

// call returns an error for a call that would be one whenever it is made.
func (n *names) call(call ast.CallExpr) error {
	args, name := call.Args(), call.FunctionName()
	if _, ok := offered[name]; !ok && otherFunctions[name] != "" && (!call.IsMemberFunction() || !isNamespace(call)) {
		return fmt.Errorf("%s is written %s", name, otherFunctions[name])
	}
	switch name {
	case rawFunction:
		return fmt.Errorf("raw(…) is for URLs, where it stands alone between {{ and }}")
	case "matches":
		if len(args) == 0 || args[len(args)-1].Kind() != ast.LiteralKind {
			return nil
		}
		if pattern, ok := args[len(args)-1].AsLiteral().(types.String); ok {
			_, err := weightOf(string(pattern))
			return err
		}
	}
	return nil
}

// isNamespace tells whether a function's name has a dot: optional.of, base64.encode.
func isNamespace(call ast.CallExpr) bool {
	if call.Target().Kind() != ast.IdentKind {
		return false
	}
	env, _ := environment()
	return env.HasFunction(call.Target().AsIdent() + "." + call.FunctionName())
}

// key is one step from a value into it.
type key struct {
	name string
	// field tells whether it is written as .name, not as ["name"].
	field bool
}

// chain returns a name and the constant keys after it: rollout and labels, team for
// rollout.labels["team"].
func chain(expr ast.Expr) (root string, path []key, ok bool) {
	switch expr.Kind() {
	case ast.IdentKind:
		return expr.AsIdent(), nil, true
	case ast.SelectKind:
		root, path, ok = chain(expr.AsSelect().Operand())
		return root, append(path, key{expr.AsSelect().FieldName(), true}), ok
	case ast.CallKind:
		call := expr.AsCall()
		function := call.FunctionName()
		if function != operators.Index && function != operators.OptIndex && function != operators.OptSelect {
			return "", nil, false
		}
		if call.Args()[1].Kind() != ast.LiteralKind {
			return "", nil, false
		}
		name, isText := call.Args()[1].AsLiteral().(types.String)
		root, path, ok = chain(call.Args()[0])
		return root, append(path, key{name: string(name)}), ok && isText
	}
	return "", nil, false
}

// check notes a reference, or returns an error if there is no such name.
func (n *names) check(root string, path []key) error {
	if strings.HasPrefix(root, ".") {
		return fmt.Errorf("a name has no dot before it: write %s", strings.TrimPrefix(shown(root, path), "."))
	}
	switch {
	case root == "response" && !n.Response:
		return fmt.Errorf("there is no response here")
	case root == "abort" && !n.Abort:
		return fmt.Errorf("there is no abort here: it is for requests and Jobs that cancel a step or take it back")
	case root == objectName && !n.Object:
		return fmt.Errorf("there is no object here")
	case root == "outputs":
		return n.output(path)
	case root == "steps":
		return n.step(path)
	case variables[root] != nil:
		n.found.Names = append(n.found.Names, root)
		return nil
	}
	parts := partsOf(root)
	if len(parts) == 0 {
		env, _ := environment()
		if _, isType := env.CELTypeProvider().FindIdent(root); isType && len(path) == 0 {
			return nil
		}
		return fmt.Errorf("there is no %s: %s", shorten(root), n.nearest(root, path))
	}
	if len(path) == 0 || !path[0].field {
		return fmt.Errorf("%s is no value of its own: write %s.%s", root, root, strings.Join(parts, ", "+root+"."))
	}
	if !slices.Contains(parts, path[0].name) {
		return fmt.Errorf("there is no %s.%s: did you mean %s.%s?", root, shorten(path[0].name), root, nearest.Word(path[0].name, parts))
	}
	name := root + "." + path[0].name
	n.found.Names = append(n.found.Names, name)
	if name == "response.headers" && len(path) > 1 && path[1].name != strings.ToLower(path[1].name) {
		return fmt.Errorf("the names of headers are in lower case: write %s", shown(name, []key{{name: strings.ToLower(path[1].name)}}))
	}
	return nil
}

func (n *names) output(path []key) error {
	n.found.Names = append(n.found.Names, "outputs")
	if len(path) == 0 {
		return nil
	}
	name := path[0].name
	n.found.Outputs = append(n.found.Outputs, name)
	switch {
	case slices.Contains(n.Outputs, name):
		return nil
	case len(n.Outputs) == 0:
		return fmt.Errorf("there is no output %s: the step has no outputs", shorten(name))
	}
	return fmt.Errorf("there is no output %s: did you mean %s?", shorten(name), nearest.Word(name, n.Outputs))
}

func (n *names) step(path []key) error {
	n.found.Names = append(n.found.Names, "steps")
	if len(path) == 0 {
		return nil
	}
	id := path[0].name
	n.found.Steps = append(n.found.Steps, id)
	switch {
	case len(path) > 1 && path[1].name != "outputs":
		return fmt.Errorf("a step has outputs alone: write %s", shown("steps", []key{path[0], {"outputs", true}, path[1]}))
	case n.Steps == nil || slices.Contains(n.Steps, id):
		return nil
	case len(n.Steps) == 0:
		return fmt.Errorf("there is no step %s before this one", shorten(id))
	}
	return fmt.Errorf("there is no step %s before this one: did you mean %s?", shorten(id), nearest.Word(id, n.Steps))
}

// partsOf returns what is declared of a name with parts, in alphabetical order.
func partsOf(root string) (parts []string) {
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if part, ok := strings.CutPrefix(name, root+"."); ok {
			parts = append(parts, part)
		}
	}
	return parts
}

// nearest offers a name in place of one that does not exist.
func (n *names) nearest(root string, path []key) string {
	var known []string
	for name := range variables {
		known = append(known, strings.Split(name, ".")[0])
	}
	slices.Sort(known)
	known = slices.DeleteFunc(slices.Compact(known), func(name string) bool {
		return name == "response" && !n.Response || name == "abort" && !n.Abort || name == objectName && !n.Object
	})
	if offer := near(root, known); offer != "" {
		return fmt.Sprintf("did you mean %s?", shown(offer, path))
	}
	return "there are " + strings.Join(known, ", ")
}

// shown is a name as it is written.
func shown(root string, path []key) string {
	var text strings.Builder
	text.WriteString(root)
	for _, k := range path {
		if k.field {
			text.WriteString("." + k.name)
		} else {
			fmt.Fprintf(&text, "[%q]", k.name)
		}
	}
	return shorten(text.String())
}
