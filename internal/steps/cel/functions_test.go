package cel

import (
	"testing"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

func textArgs(texts ...string) (args []ref.Val) {
	for _, text := range texts {
		args = append(args, types.String(text))
	}
	return args
}

// TestEachFunctionIsBound: one that cel-go does not have under its name would be refused when
// somebody uses it.
func TestEachFunctionIsBound(t *testing.T) {
	for name, f := range offered {
		if f.own == nil && overloads()[name] == nil && name != "or" && name != "orValue" {
			t.Errorf("%s is not bound", name)
		}
	}
	for name := range otherFunctions {
		if _, ok := offered[name]; ok {
			t.Errorf("%s is offered, and not another language's alone", name)
		}
	}
}
