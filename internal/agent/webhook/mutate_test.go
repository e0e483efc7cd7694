package webhook

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/scaledobject"
)

const address = "scaler.keda:9090"

func TestMutate(t *testing.T) {
	for name, tt := range map[string]struct{ object, want string }{
		"metadata and unknown fields are kept": {
			`{"kind":"ScaledObject","spec":{"triggers":[{"type":"kedify-http","metricType":"AverageValue","new":{"n":1.50},"metadata":{"hosts":"a","targetValue":"5"}}],"more":[1]}}`,
			`{"kind":"ScaledObject","spec":{"triggers":[{"type":"external-push","metricType":"AverageValue","new":{"n":1.50},"metadata":{"hosts":"a","targetValue":"5","scalerAddress":"scaler.keda:9090","triggerType":"kedify-http"}}],"more":[1]}}`,
		},
		"each such trigger, and no other": {
			`{"spec":{"triggers":[{"type":"cpu","metadata":{"value":"80"}},{"type":"kedify-http","metadata":{}},{"type":"external-push","metadata":{"scalerAddress":"other:1"}},{"type":"kedify-http","metadata":{"port":"80"}}]}}`,
			`{"spec":{"triggers":[{"type":"cpu","metadata":{"value":"80"}},{"type":"external-push","metadata":{"scalerAddress":"scaler.keda:9090","triggerType":"kedify-http"}},{"type":"external-push","metadata":{"scalerAddress":"other:1"}},{"type":"external-push","metadata":{"port":"80","scalerAddress":"scaler.keda:9090","triggerType":"kedify-http"}}]}}`,
		},
		"a scaler's address of somebody else's": {
			`{"spec":{"triggers":[{"type":"kedify-http","metadata":{"scalerAddress":"kedify:4318"}}]}}`,
			`{"spec":{"triggers":[{"type":"external-push","metadata":{"scalerAddress":"scaler.keda:9090","triggerType":"kedify-http"}}]}}`,
		},
		"no metadata":        {`{"spec":{"triggers":[{"type":"kedify-http"}]}}`, `{"spec":{"triggers":[{"type":"external-push","metadata":{"scalerAddress":"scaler.keda:9090","triggerType":"kedify-http"}}]}}`},
		"metadata is null":   {`{"spec":{"triggers":[{"type":"kedify-http","metadata":null}]}}`, `{"spec":{"triggers":[{"type":"external-push","metadata":{"scalerAddress":"scaler.keda:9090","triggerType":"kedify-http"}}]}}`},
		"metadata is a text": {`{"spec":{"triggers":[{"type":"kedify-http","metadata":"x"}]}}`, `{"spec":{"triggers":[{"type":"kedify-http","metadata":"x"}]}}`},
		"Type is not type":   {`{"spec":{"triggers":[{"Type":"kedify-http"}]}}`, `{"spec":{"triggers":[{"Type":"kedify-http"}]}}`},
		"no trigger":         {`{"spec":{"triggers":[null,"kedify-http"]}}`, `{"spec":{"triggers":[null,"kedify-http"]}}`},
		"no triggers":        {`{"spec":[]}`, `{"spec":[]}`},
	} {
		t.Run(name, func(t *testing.T) {
			patch, err := mutate([]byte(tt.object), address)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(decode(t, tt.want), patched(t, tt.object, patch)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What users have written is what there is again once a trigger is nobody's.
func TestUndo(t *testing.T) {
	const object = `{"spec":{"triggers":[{"type":"cpu","metadata":{"value":"80"}},{"type":"kedify-http","metadata":{"port":"80"}},{"type":"external-push","metadata":{"scalerAddress":"other:1"}},{"type":"kedify-http","metadata":{}}]}}`
	patch, err := mutate([]byte(object), address)
	if err != nil {
		t.Fatal(err)
	}
	mutated, err := json.Marshal(patched(t, object, patch))
	if err != nil {
		t.Fatal(err)
	}
	var so scaledobject.ScaledObject
	if err := json.Unmarshal(mutated, &so); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(decode(t, object), patched(t, string(mutated), Undo(so.Spec.Triggers))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// An object that cannot be read is refused, not stored.
func TestHandleRefusesWhatIsNoJSON(t *testing.T) {
	var request admission.Request
	request.Object = runtime.RawExtension{Raw: []byte(`{"spec":`)}
	if response := (mutation{address}).Handle(t.Context(), request); response.Allowed || !strings.Contains(response.Result.Message, "cannot be read") {
		t.Errorf("%+v", response)
	}
}

// No object makes the webhook fail, and what it has changed it changes no more.
func FuzzMutate(f *testing.F) {
	for _, seed := range []string{
		`{"spec":{"triggers":[{"type":"kedify-http","metadata":{"hosts":"a"}},{"type":"cpu"}]}}`,
		`{"spec":{"triggers":[{"type":"kedify-http","metadata":null}]}}`, `{"spec":{"triggers":{}}}`, `[]`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		patch, err := mutate(raw, address)
		if err != nil {
			return
		}
		after, err := json.Marshal(patched(t, string(raw), patch))
		if err != nil {
			t.Fatal(err)
		}
		if again, err := mutate(after, address); err != nil || len(again) > 0 {
			t.Errorf("%s is changed again: %v %v", after, again, err)
		}
		if len(patch) == 0 && !reflect.DeepEqual(decode(t, string(raw)), decode(t, string(after))) {
			t.Errorf("%s has become %s", raw, after)
		}
	})
}

// patched returns an object with a patch applied, of operations on fields.
func patched(t *testing.T, object string, patch []ctrlwebhook.JSONPatchOp) any {
	t.Helper()
	decoded := decode(t, object)
	for _, operation := range patch {
		keys := strings.Split(operation.Path, "/")[1:]
		at := decoded
		for _, key := range keys[:len(keys)-1] {
			if list, ok := at.([]any); ok {
				i, err := strconv.Atoi(key)
				if err != nil {
					t.Fatal(err)
				}
				at = list[i]
			} else {
				at = at.(map[string]any)[key]
			}
		}
		switch fields, last := at.(map[string]any), keys[len(keys)-1]; operation.Operation {
		case "test":
			if fields[last] != operation.Value {
				t.Fatalf("%s is %v, want %v", operation.Path, fields[last], operation.Value)
			}
		case "remove":
			delete(fields, last)
		default:
			fields[last] = operation.Value
		}
	}
	return decoded
}

func decode(t *testing.T, text string) any {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}
