package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/scaledobject"
)

// mutation answers the API server.
type mutation struct{ scalerAddress string }

func (m mutation) Handle(_ context.Context, request admission.Request) admission.Response {
	patch, err := mutate(request.Object.Raw, m.scalerAddress)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	return admission.Patched("", patch...)
}

// mutate returns what makes the triggers of type kedify-http in a ScaledObject external-push
// ones of our scaler. Nothing else is changed, also of what this version does not know. What
// is no trigger is left to the API server, which says what is wrong with it.
func mutate(raw []byte, scalerAddress string) ([]ctrlwebhook.JSONPatchOp, error) {
	var object map[string]any
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, fmt.Errorf("the object cannot be read: %w", err)
	}
	field, _, _ := unstructured.NestedFieldNoCopy(object, "spec", "triggers")
	triggers, _ := field.([]any)
	var patch []ctrlwebhook.JSONPatchOp
	for i := range triggers {
		trigger, _ := triggers[i].(map[string]any)
		if trigger["type"] != scaledobject.KedifyHTTP {
			continue
		}
		at := fmt.Sprintf("/spec/triggers/%d", i)
		switch trigger["metadata"].(type) {
		case map[string]any:
		case nil:
			patch = append(patch, ctrlwebhook.JSONPatchOp{Operation: "add", Path: at + "/metadata", Value: map[string]any{}})
		default:
			continue
		}
		patch = append(patch,
			ctrlwebhook.JSONPatchOp{Operation: "replace", Path: at + "/type", Value: scaledobject.ExternalPush},
			ctrlwebhook.JSONPatchOp{Operation: "add", Path: at + "/metadata/" + scaledobject.ScalerAddressKey, Value: scalerAddress},
			ctrlwebhook.JSONPatchOp{Operation: "add", Path: at + "/metadata/" + scaledobject.TypeKey, Value: scaledobject.KedifyHTTP})
	}
	return patch, nil
}

// Undo returns what makes triggers that the webhook has changed what users have written; nil
// if there is none.
func Undo(triggers []scaledobject.Trigger) (patch []ctrlwebhook.JSONPatchOp) {
	for i, trigger := range triggers {
		if !trigger.IsKedifyHTTP() || trigger.Type == scaledobject.KedifyHTTP {
			continue
		}
		at := fmt.Sprintf("/spec/triggers/%d/", i)
		patch = append(patch,
			// Somebody may change the list meanwhile.
			ctrlwebhook.JSONPatchOp{Operation: "test", Path: at + "metadata/" + scaledobject.TypeKey, Value: scaledobject.KedifyHTTP},
			ctrlwebhook.JSONPatchOp{Operation: "replace", Path: at + "type", Value: scaledobject.KedifyHTTP},
			ctrlwebhook.JSONPatchOp{Operation: "remove", Path: at + "metadata/" + scaledobject.TypeKey})
		if _, found := trigger.Metadata[scaledobject.ScalerAddressKey]; found {
			patch = append(patch, ctrlwebhook.JSONPatchOp{Operation: "remove", Path: at + "metadata/" + scaledobject.ScalerAddressKey})
		}
	}
	return patch
}
