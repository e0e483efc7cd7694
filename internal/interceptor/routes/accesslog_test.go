package routes

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// The annotation counts at once, also for an object whose spec cannot be served, and a
// change of it reaches the Envoys.
func TestAccessLogAnnotation(t *testing.T) {
	b := NewBuilder()
	b.SetService(benchService(1, "stable"))
	commit := func(annotation string, servable bool) (*Route, Changes) {
		o := benchObject(1, 20)
		o.Annotations = map[string]string{AccessLogAnnotation: annotation}
		if !servable {
			o.Spec.ScaleTargetRef.Service = ""
		}
		b.SetHTTPScaledObject(o)
		table, changes := b.Commit()
		return table.Route(types.NamespacedName{Namespace: o.Namespace, Name: o.Name}), changes
	}
	if route, _ := commit("", true); route.AccessLog {
		t.Error("an object without the annotation is logged")
	}
	for _, step := range []struct {
		annotation     string
		servable, want bool
	}{{"true", true, true}, {"yes", true, false}, {"true", false, true}, {"false", false, false}} {
		route, changes := commit(step.annotation, step.servable)
		if route.AccessLog != step.want {
			t.Errorf("%+v: logged: %t", step, route.AccessLog)
		}
		if len(changes.Routes) != 1 || !changes.Routes[0].Rerouted() {
			t.Errorf("%+v: the change is %+v", step, changes.Routes)
		}
	}
}
