package routes

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// Refused returns why an object cannot be served as it is, whatever other objects there are;
// nil if it can. The error names the fields.
func Refused(object *httpv1alpha1.HTTPScaledObject) error {
	d := &checkedObject{name: types.NamespacedName{Namespace: object.Namespace, Name: object.Name}}
	var refused []error
	for _, p := range d.checkSpec(&object.Spec, time.Time{}, nil) {
		refused = append(refused, errors.New(p.Message))
	}
	return errors.Join(refused...)
}
