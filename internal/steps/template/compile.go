package template

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"

	"github.com/kedify/argo-rollouts-plugin/internal/nearest"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/bound"
)

const (
	// maxNodes bounds the nodes of a template.
	maxNodes = 10_000
	// maxDepth bounds how deeply they are nested.
	maxDepth = 100
	// nodeCost is what executing a node costs, in units of a bound.Budget.
	nodeCost = 30
)

// Functions that the compiler puts into a template. They are not offered, so no author can
// call them.
const (
	// fieldFunction looks a field up, in place of text/template, which would look for
	// methods too.
	fieldFunction = "_field"
	// roundsFunction pays for all iterations of a loop, before the first one.
	roundsFunction = "_rounds"
	// shownFunction pays for a value that is printed.
	shownFunction = "_shown"
	// comparedFunction pays for a value that is compared.
	comparedFunction = "_compared"
)

// compiler refuses what is not allowed in a template, and inserts calls that bound the work
// of rendering it.
type compiler struct {
	tree      *parse.Tree
	functions map[string]bool
	nodes     int
	depth     int
}

func (c *compiler) names() []string { return slices.Sorted(maps.Keys(c.functions)) }

// errorf returns an error at a node.
func (c *compiler) errorf(at parse.Node, format string, args ...any) error {
	location, _ := c.tree.ErrorContext(at)
	line := strings.Split(strings.TrimPrefix(location, name+":"), ":")[0]
	return fmt.Errorf("line %s: %s", line, fmt.Sprintf(format, args...))
}

// enter counts a node and its depth; the caller calls leave after the node.
func (c *compiler) enter(at parse.Node) error {
	c.nodes++
	c.depth++
	switch {
	case c.nodes > maxNodes:
		return c.errorf(at, "a template of more than %d actions, functions and values is not allowed", maxNodes)
	case c.depth > maxDepth:
		return c.errorf(at, "more than %d actions in one another are not allowed", maxDepth)
	}
	return nil
}

func (c *compiler) leave() { c.depth-- }

func (c *compiler) list(list *parse.ListNode) error {
	if list == nil {
		return nil
	}
	for _, node := range list.Nodes {
		if err := c.action(node); err != nil {
			return err
		}
	}
	return nil
}

// action compiles one node of a list: a text, an action, or an if, with or range.
func (c *compiler) action(node parse.Node) error {
	if err := c.enter(node); err != nil {
		return err
	}
	defer c.leave()
	switch node := node.(type) {
	case *parse.TextNode, *parse.CommentNode, *parse.BreakNode, *parse.ContinueNode:
		return nil
	case *parse.ActionNode:
		if err := c.pipe(node.Pipe); err != nil {
			return err
		}
		if len(node.Pipe.Decl) == 0 {
			c.then(node.Pipe, shownFunction)
		}
		return nil
	case *parse.IfNode:
		return c.branch(&node.BranchNode)
	case *parse.WithNode:
		return c.branch(&node.BranchNode)
	case *parse.RangeNode:
		return c.loop(&node.BranchNode)
	case *parse.TemplateNode:
		return c.errorf(node, "template and block are not offered")
	default:
		return c.errorf(node, "%s is not offered", node)
	}
}

func (c *compiler) branch(node *parse.BranchNode) error {
	if err := c.pipe(node.Pipe); err != nil {
		return err
	}
	if err := c.list(node.List); err != nil {
		return err
	}
	return c.list(node.ElseList)
}

// loop has all iterations of a range paid for before the first one; an iteration costs as
// much as the nodes in the body. An inner loop pays for its own iterations each time it
// starts.
func (c *compiler) loop(node *parse.BranchNode) error {
	if err := c.pipe(node.Pipe); err != nil {
		return err
	}
	before := c.nodes
	if err := c.list(node.List); err != nil {
		return err
	}
	c.then(node.Pipe, roundsFunction, number(node.Pos, c.nodes-before+1))
	return c.list(node.ElseList)
}

// then appends a call to a pipeline.
func (c *compiler) then(pipe *parse.PipeNode, function string, args ...parse.Node) {
	pipe.Cmds = append(pipe.Cmds, c.call(pipe.Pos, function, args...))
}

func (c *compiler) pipe(pipe *parse.PipeNode) error {
	if err := c.enter(pipe); err != nil {
		return err
	}
	defer c.leave()
	var commands []*parse.CommandNode
	for i, command := range pipe.Cmds {
		first := command.Args[0]
		for j, arg := range command.Args {
			compiled, err := c.value(arg)
			if err != nil {
				return err
			}
			command.Args[j] = compiled
		}
		function, ok := first.(*parse.IdentifierNode)
		if !ok && (i > 0 || len(command.Args) > 1) {
			return c.errorf(command, "%s is no function, so it takes no arguments", bound.Shorten(first.String(), maxSuggested))
		}
		if ok && slices.Contains(comparisons, function.Ident) {
			for j, arg := range command.Args[1:] {
				command.Args[j+1] = c.compared(arg)
			}
			if i > 0 {
				commands = append(commands, c.call(command.Pos, comparedFunction))
			}
		}
		commands = append(commands, command)
	}
	pipe.Cmds = commands
	return nil
}

// comparisons are functions of text/template. It does not export them, so they cannot be
// wrapped: their arguments are wrapped in calls that pay.
var comparisons = strings.Fields("eq ne lt le gt ge")

// compared returns a call that pays for a value that is compared.
func (c *compiler) compared(value parse.Node) parse.Node {
	switch value.(type) {
	case *parse.NilNode, *parse.BoolNode, *parse.NumberNode, *parse.StringNode:
		return value
	}
	pos := value.Position()
	return &parse.PipeNode{NodeType: parse.NodePipe, Pos: pos, Cmds: []*parse.CommandNode{c.call(pos, comparedFunction, value)}}
}

// value compiles a function's name, one of its arguments, or a value that stands alone.
func (c *compiler) value(node parse.Node) (parse.Node, error) {
	if err := c.enter(node); err != nil {
		return nil, err
	}
	defer c.leave()
	switch node := node.(type) {
	case *parse.DotNode, *parse.NilNode, *parse.BoolNode, *parse.NumberNode, *parse.StringNode:
		return node, nil
	case *parse.IdentifierNode:
		if !isOffered(node.Ident) {
			return nil, c.unknown(node)
		}
		c.functions[node.Ident] = true
		return node, nil
	case *parse.PipeNode:
		return node, c.pipe(node)
	case *parse.FieldNode:
		dot := &parse.DotNode{NodeType: parse.NodeDot, Pos: node.Pos}
		return c.field(node.Pos, dot, "", node.Ident), nil
	case *parse.VariableNode:
		if len(node.Ident) == 1 {
			return node, nil
		}
		variable := &parse.VariableNode{NodeType: parse.NodeVariable, Pos: node.Pos, Ident: node.Ident[:1]}
		return c.field(node.Pos, variable, node.Ident[0], node.Ident[1:]), nil
	case *parse.ChainNode:
		of, err := c.value(node.Node)
		if err != nil {
			return nil, err
		}
		return c.field(node.Pos, of, "(…)", node.Field), nil
	default:
		return nil, c.errorf(node, "%s is not offered", node)
	}
}

// unknown returns an error for a function that is not offered.
func (c *compiler) unknown(node *parse.IdentifierNode) error {
	if isElsewhere(node.Ident) {
		return c.errorf(node, "function %s is not offered here", node.Ident)
	}
	if len(node.Ident) > maxSuggested {
		return c.errorf(node, "there is no such function")
	}
	return c.errorf(node, "there is no function %s: did you mean %s?", node.Ident, nearest.Word(node.Ident, Functions()))
}

// field returns a call that looks up keys in a value, with the value's name for messages.
func (c *compiler) field(pos parse.Pos, of parse.Node, shown string, keys []string) parse.Node {
	c.nodes += len(keys)
	args := []parse.Node{of, text(pos, shown)}
	for _, key := range keys {
		args = append(args, text(pos, key))
	}
	return &parse.PipeNode{NodeType: parse.NodePipe, Pos: pos, Cmds: []*parse.CommandNode{c.call(pos, fieldFunction, args...)}}
}

// call returns a call of a function.
func (c *compiler) call(pos parse.Pos, function string, args ...parse.Node) *parse.CommandNode {
	c.functions[function] = true
	callee := parse.NewIdentifier(function).SetPos(pos).SetTree(c.tree)
	return &parse.CommandNode{NodeType: parse.NodeCommand, Pos: pos, Args: append([]parse.Node{callee}, args...)}
}

func text(pos parse.Pos, text string) parse.Node {
	return &parse.StringNode{NodeType: parse.NodeString, Pos: pos, Quoted: strconv.Quote(text), Text: text}
}

func number(pos parse.Pos, n int) parse.Node {
	return &parse.NumberNode{NodeType: parse.NodeNumber, Pos: pos, IsInt: true, Int64: int64(n), Text: strconv.Itoa(n)}
}
