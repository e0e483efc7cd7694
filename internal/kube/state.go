package kube

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// State identifies an object, the version of its API and its resourceVersion. Equal
// States are of the same object with the same content. The zero value stands for no
// object.
//
// State, ListStates and IndexedStates answer from the watch what Get, List and Indexed
// would, without decoding the objects: a caller that has judged these states need not
// do so again. They make no request and wait for nothing: ok is false while there is no
// watch to answer from.
type State struct{ apiVersion, namespace, name, resourceVersion string }

// StateOf returns the State in which an object of a Group was read.
func StateOf(object *unstructured.Unstructured) State {
	return State{object.GetAPIVersion(), object.GetNamespace(), object.GetName(), object.GetResourceVersion()}
}

// StateOfMetadata returns the State in which an object of a Metadata store was read; all
// objects of a store are of one API version.
func StateOfMetadata(object *metav1.PartialObjectMetadata) State {
	return State{namespace: object.Namespace, name: object.Name, resourceVersion: object.ResourceVersion}
}

// State returns the State of the object that Watched would return; the zero value when
// it does not exist.
func (g *Group) State(kind, namespace, name string) (state State, ok bool) {
	s, object, ok := g.stored(kind, namespace, name)
	if object == nil {
		return State{}, ok
	}
	return s.stateOf(object), ok
}

// ListStates returns the States of the objects that List would return, in the same
// order.
func (g *Group) ListStates(kind, namespace string, selector labels.Selector) (states []State, ok bool) {
	s := g.known(kind)
	if s == nil || !s.covers(namespace) || !s.current() {
		return nil, false
	}
	found, err := s.list(namespace, selector)
	return s.statesOf(found), err == nil
}

// IndexedStates returns the States of the objects that Indexed would return, in the
// same order.
func (g *Group) IndexedStates(kind, key string) (states []State, ok bool) {
	s := g.known(kind)
	if s == nil || !s.current() {
		return nil, false
	}
	found, err := s.withKey(key)
	return s.statesOf(found), err == nil
}

func (s *source) stateOf(object *encoded) State {
	return State{s.apiVersion, object.Namespace, object.Name, object.ResourceVersion}
}

func (s *source) statesOf(found []*encoded) []State {
	sortByName(found)
	states := make([]State, len(found))
	for i, object := range found {
		states[i] = s.stateOf(object)
	}
	return states
}

func sortByName(objects []*encoded) {
	slices.SortFunc(objects, func(a, b *encoded) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}
