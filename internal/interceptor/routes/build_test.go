package routes

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// inputs is all that a table is made of.
type inputs struct {
	HTTPScaledObjects []*httpv1alpha1.HTTPScaledObject
	Services          []*corev1.Service
	EndpointSlices    []*discoveryv1.EndpointSlice
}

// build makes a table from all of its inputs at once. before has the last good forms
// and splits; nil if there are none. A Builder that is given the same inputs one by one
// arrives at the same table.
func (b *Builder) build(in inputs, before *Table) *Table {
	b.before = before
	for _, is := range in.Services {
		b.SetService(is)
	}
	for _, is := range in.EndpointSlices {
		b.SetEndpointSlice(is)
	}
	for _, is := range in.HTTPScaledObjects {
		b.SetHTTPScaledObject(is)
	}
	table, _ := b.Commit()
	return table
}
