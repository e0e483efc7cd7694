package kube

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestRefusalsPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r refusals
		routes := schema.GroupResource{Resource: "httproutes"}
		here, there := refusal{routes, "demo"}, refusal{routes, "elsewhere"}
		r.add(here)
		time.Sleep(refusedFor - time.Second)
		if !r.has(here) || r.has(there) {
			t.Errorf("remembered here %t, there %t, want it here alone", r.has(here), r.has(there))
		}
		time.Sleep(time.Second)
		if r.has(here) {
			t.Error("remembered for ever")
		}
	})
}
