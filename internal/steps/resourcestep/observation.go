package resourcestep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/bound"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/cel"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/stepobject"
)

// maxValues bounds the values of an object: each takes some hundred bytes.
const maxValues = 50_000

// observation is an object as it was read, and what expressions over it see.
type observation struct {
	meta metav1.ObjectMeta
	// status is the object's, without values where it has none or is no object.
	status map[string]any
	vars   cel.Vars
	budget *cel.Budget
	// release lets another object be read.
	release func()
}

// take reads the text of an object.
func (o *observation) take(text json.RawMessage) error {
	var object, metadata map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil {
		return fmt.Errorf("the object: %w", err)
	}
	if err := errors.Join(json.Unmarshal(object["metadata"], &o.meta), json.Unmarshal(object["metadata"], &metadata)); err != nil {
		return fmt.Errorf("metadata of the object: %w", err)
	}
	delete(metadata, "managedFields") // they are as large as the rest, and say who has written it
	var err error
	if object["metadata"], err = json.Marshal(metadata); err == nil {
		text, err = json.Marshal(object)
	}
	if err != nil {
		return err
	}
	if n := cel.ValuesIn(text); n > maxValues {
		return fmt.Errorf("the object has %d values: want %d at most", n, maxValues)
	}
	value, err := cel.FromJSON(text)
	if err != nil {
		return fmt.Errorf("the object: %w", err)
	}
	o.status, _ = value.(map[string]any)["status"].(map[string]any)
	o.vars["object"] = value
	return nil
}

// verdict is what the conditions say of an object.
type verdict struct {
	phase steps.Phase
	why   string
}

// judge evaluates the conditions over an object. An error says that one cannot be evaluated over
// it as it is now.
func (s *step) judge(ctx context.Context, o *observation) (verdict, error) {
	isDeleted := o.meta.DeletionTimestamp != nil
	waits := "waits for successCondition: " + s.successText
	if seen, has := o.status["observedGeneration"].(int64); has && seen < o.meta.Generation {
		waits = fmt.Sprintf("waits for its controller, which has not seen its last change yet (status.observedGeneration is %d, metadata.generation %d)", seen, o.meta.Generation)
	} else {
		fails, _, err := o.holds(ctx, s.failure)
		if err != nil {
			return verdict{}, fmt.Errorf("failureCondition: %w", err)
		}
		if fails {
			return verdict{steps.Failed, "has failed: failureCondition is true: " + s.failureText + o.described()}, nil
		}
		succeeds, missing, err := o.holds(ctx, s.success)
		if err != nil {
			return verdict{}, fmt.Errorf("successCondition: %w", err)
		}
		if succeeds {
			return verdict{steps.Successful, "has succeeded: " + s.successText}, nil
		}
		if missing != "" {
			waits += fmt.Sprintf(" (there is no %s yet)", missing)
		}
	}
	if isDeleted {
		return verdict{steps.Failed, "is being deleted, before it has ended; " + stepobject.NotAgain}, nil
	}
	return verdict{steps.Running, waits + o.described()}, nil
}

// holds tells whether a condition is true. It is not where it refers to what is not there;
// missing then says what. Without a condition it is not.
func (o *observation) holds(ctx context.Context, x *cel.Expression) (is bool, missing string, err error) {
	if x == nil {
		return false, "", nil
	}
	is, err = x.Bool(ctx, o.budget, o.vars)
	var absent *cel.MissingError
	if errors.As(err, &absent) {
		missing = "value"
		if absent.Key != "" {
			missing = fmt.Sprintf("%q", absent.Key)
		}
		return false, missing, nil
	}
	return is, "", err
}

// described is what an object's status says of itself, for people.
func (o *observation) described() string {
	phase, _ := o.status["phase"].(string)
	message, _ := o.status["message"].(string)
	conditions, _ := o.status["conditions"].([]any)
	for i := len(conditions) - 1; i >= 0 && phase == "" && message == ""; i-- {
		condition, _ := conditions[i].(map[string]any)
		phase, _ = condition["reason"].(string)
		message, _ = condition["message"].(string)
	}
	said := strings.Trim(phase+": "+strings.Join(strings.Fields(message), " "), ": ")
	if said == "" {
		return ""
	}
	return " (" + bound.Shorten(said, maxMessage) + ")"
}

// progress tells how a step's object goes.
func (s *step) progress(ctx context.Context, store stepobject.Store, o *observation) (steps.Progress, error) {
	named := store.Named(o.meta.Namespace, o.meta.Name)
	v, err := s.judge(ctx, o)
	if err != nil {
		return steps.Progress{}, fmt.Errorf("%s: %w", named, err)
	}
	p := steps.Progress{Phase: v.phase, Message: named + " " + v.why, Outputs: map[string]string{}}
	for _, out := range s.outputs {
		value, err := out.value.Text(ctx, o.budget, o.vars)
		switch {
		case err == nil:
			p.Outputs[out.name] = value
		case v.phase == steps.Successful:
			p.Phase, p.Message = steps.Failed, fmt.Sprintf("%s, and %s: %v", p.Message, out.path, err)
		}
	}
	if v.phase == steps.Running {
		p.Waiting, _ = o.status["phase"].(string)
		p.Waiting = "object " + p.Waiting
	}
	if s.message == nil || v.phase == steps.Successful {
		return p, nil
	}
	o.vars["outputs"] = maps.Clone(p.Outputs)
	message, err := s.message.Render(ctx, o.budget, o.vars)
	message = bound.Shorten(strings.Join(strings.Fields(message), " "), maxMessage)
	switch {
	case errors.As(err, new(*cel.MissingError)):
	case err != nil:
		p.Message += fmt.Sprintf(" (message: %v)", err)
	case v.phase == steps.Running:
		p.Message, p.Waiting = named+": "+message, ""
	default:
		p.Message += ": " + message
	}
	return p, nil
}
