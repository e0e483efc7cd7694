package cel

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/containers"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// cel-go has a limit of costs, but counts a call after it is made, takes a value of a type
// that it does not know for free, and charges && and || nothing: within a cost of 25 an
// expression took 128 MB, and within one of 10,000 it took 33 s. So each node of a plan is
// wrapped in one that charges the Budget first.

// metered makes a node charge for what it does.
func metered(of interpreter.Interpretable) (interpreter.Interpretable, error) {
	switch of := of.(type) {
	case *attribute, *call, interpreter.InterpretableConst:
		return of, nil
	case interpreter.InterpretableAttribute:
		return &attribute{of, 1}, nil
	case interpreter.InterpretableCall:
		return newCall(of)
	case interpreter.InterpretableConstructor:
		return node{of, unitsOf(of)}, nil
	}
	return node{of, 1}, nil
}

// meterOf returns the meter of an evaluation.
func meterOf(vars interpreter.Activation) *meter {
	for {
		if own, ok := vars.(*activation); ok {
			return &own.meter
		}
		vars = vars.Parent()
	}
}

// unitsOf are the units that it takes to make a list or an object: the memory of one with a
// single item is that of four.
func unitsOf(of interpreter.InterpretableConstructor) int {
	if of.Type() == types.MapType {
		return 6 + 2*len(of.InitVals())
	}
	return 2 + len(of.InitVals())
}

// node is a macro, && or ||, or makes a list or an object.
type node struct {
	interpreter.Interpretable
	units int
}

// Eval evaluates the node.
func (n node) Eval(vars interpreter.Activation) ref.Val {
	meterOf(vars).charge(n.units)
	return n.Interpretable.Eval(vars)
}

// attribute is a name, a value or a condition (a ? b : c) with keys after it.
type attribute struct {
	interpreter.InterpretableAttribute
	units int
}

// Eval returns the attribute's value.
func (a *attribute) Eval(vars interpreter.Activation) ref.Val {
	m := meterOf(vars)
	m.charge(a.units)
	value := a.InterpretableAttribute.Eval(vars)
	m.mention(value)
	return value
}

// Resolve returns the attribute's value where it is a key of another.
func (a *attribute) Resolve(vars interpreter.Activation) (any, error) {
	m := meterOf(vars)
	m.charge(a.units)
	value, err := a.InterpretableAttribute.Resolve(vars)
	m.mention(value)
	return value, err
}

// keys makes a key of a value.
var keys = sync.OnceValue(func() interpreter.AttributeFactory {
	registry := types.NewEmptyRegistry()
	return interpreter.NewAttributeFactory(containers.DefaultContainer, registry, registry)
})

// Qualify looks a value up by the attribute's value.
func (a *attribute) Qualify(vars interpreter.Activation, in any) (any, error) {
	key, err := a.key(vars)
	if err != nil {
		return nil, err
	}
	return key.Qualify(vars, in)
}

// QualifyIfPresent looks a value up that may be missing.
func (a *attribute) QualifyIfPresent(vars interpreter.Activation, in any, presenceOnly bool) (any, bool, error) {
	key, err := a.key(vars)
	if err != nil {
		return nil, false, err
	}
	return key.QualifyIfPresent(vars, in, presenceOnly)
}

func (a *attribute) key(vars interpreter.Activation) (interpreter.Qualifier, error) {
	value, err := a.Resolve(vars)
	if err != nil {
		return nil, err
	}
	return keys().NewQualifier(nil, a.ID(), value, a.IsOptional())
}

// AddQualifier adds a key.
func (a *attribute) AddQualifier(key interpreter.Qualifier) (interpreter.Attribute, error) {
	a.units++
	return a.InterpretableAttribute.AddQualifier(key)
}

// Attr is the attribute as a part of a condition.
func (a *attribute) Attr() interpreter.Attribute {
	return branch{a.InterpretableAttribute.Attr(), a}
}

// branch is an attribute that a condition chooses.
type branch struct {
	interpreter.Attribute
	of *attribute
}

// Resolve returns the attribute's value.
func (b branch) Resolve(vars interpreter.Activation) (any, error) { return b.of.Resolve(vars) }

// AddQualifier adds a key.
func (b branch) AddQualifier(key interpreter.Qualifier) (interpreter.Attribute, error) {
	_, err := b.of.AddQualifier(key)
	return b, err
}

// mention charges for a text that is compared or is a key, whatever mentions it.
func (m *meter) mention(value any) {
	switch value := value.(type) {
	case types.String:
		m.read(len(value))
	case types.Bytes:
		m.read(len(value))
	case string:
		m.read(len(value))
	}
}

// call is a call of a function or an operator.
type call struct {
	interpreter.InterpretableCall
	args  []interpreter.Interpretable
	price price
	// own is used in place of overload, which is cel-go's.
	own      func(m *meter, args []ref.Val) ref.Val
	overload *functions.Overload
}

func newCall(of interpreter.InterpretableCall) (interpreter.Interpretable, error) {
	name := of.Function()
	f, ok := offered[name]
	if !ok {
		return nil, fmt.Errorf("function %s is not offered", name)
	}
	overload := overloads()[of.OverloadID()]
	if overload == nil {
		overload = overloads()[name]
	}
	if overload == nil && f.own == nil {
		return nil, fmt.Errorf("function %s is not offered", name)
	}
	return &call{of, of.Args(), f.price, f.own, overload}, nil
}

// Eval makes the call.
func (c *call) Eval(vars interpreter.Activation) ref.Val {
	m := meterOf(vars)
	m.charge(1)
	args := make([]ref.Val, len(c.args))
	strict := c.overload == nil || !c.overload.NonStrict
	for i, arg := range c.args {
		args[i] = arg.Eval(vars)
		if strict && types.IsUnknownOrError(args[i]) {
			return args[i]
		}
	}
	var result ref.Val
	if c.price != nil {
		c.price(m, args)
	}
	if c.own != nil {
		result = c.own(m, args)
	} else {
		result = c.invoke(args)
	}
	if types.IsError(result) && strict {
		m.charge(5)
		return types.WrapErr(c.explain(result.(*types.Err), args))
	}
	m.mention(result)
	return result
}

func (c *call) invoke(args []ref.Val) ref.Val {
	o := c.overload
	if o.OperandTrait != 0 && !o.NonStrict && !args[0].Type().HasTrait(o.OperandTrait) {
		return types.MaybeNoSuchOverloadErr(args[0])
	}
	switch {
	case len(args) == 1 && o.Unary != nil:
		return o.Unary(args[0])
	case len(args) == 2 && o.Binary != nil:
		return o.Binary(args[0], args[1])
	case o.Function != nil:
		return o.Function(args...)
	}
	if receiver, ok := args[0].(traits.Receiver); ok {
		return receiver.Receive(c.Function(), c.OverloadID(), args[1:])
	}
	return types.MaybeNoSuchOverloadErr(args[0])
}

// program plans an expression that has been checked.
func program(env *cel.Env, checked *cel.Ast) (cel.Program, error) {
	return env.Program(checked, cel.CustomDecorator(metered))
}
