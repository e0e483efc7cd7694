package routes

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// SavedRoute has what virtual hosts need of a Route, without the endpoints, in a form
// that can be written as JSON and read back.
type SavedRoute struct {
	UID            types.UID                  `json:"uid,omitempty"`
	Created        time.Time                  `json:"created,omitzero"`
	Hosts          []string                   `json:"hosts"`
	PathPrefixes   []string                   `json:"paths"`
	Headers        []Header                   `json:"headers,omitempty"`
	Allowed        []string                   `json:"allowed,omitempty"`
	Split          []weightedbackends.Backend `json:"split"`
	ResponseHeader *time.Duration             `json:"responseHeader,omitempty"`
	AccessLog      bool                       `json:"accessLog,omitempty"`
}

// Save returns what Restore makes a Route of.
func (r *Route) Save() SavedRoute {
	m := r.spec.match
	return SavedRoute{
		UID: r.UID, Created: m.created, Hosts: m.hosts, PathPrefixes: m.prefixes, Headers: m.headers, Allowed: m.allowed,
		Split: r.asked(), ResponseHeader: r.ResponseHeader, AccessLog: r.AccessLog,
	}
}

// Restore returns the Route of an HTTPScaledObject that was saved. It is for virtual
// hosts: its backends have no endpoints, and it has no Failover. Restore returns an
// error for what cannot be a Route, as a saved route may be forged.
func (s SavedRoute) Restore(name types.NamespacedName) (*Route, error) {
	if len(s.Hosts) == 0 || len(s.PathPrefixes) == 0 || len(s.Split) == 0 {
		return nil, errors.New("expected hosts, paths and a split")
	}
	if matches := countMatches(s.Hosts, s.PathPrefixes, s.Headers); matches > maxMatches {
		return nil, fmt.Errorf("%d matches, above %d", matches, maxMatches)
	}
	if err := cmp.Or(
		asRead("host", s.Hosts, hostPattern),
		asRead("path", s.PathPrefixes, pathPrefix),
		asRead("header", s.Headers, func(h Header) (Header, error) { return checkHeader(h.Name, h.Value) }),
		asRead("namespace", s.Allowed, allowedNamespace),
	); err != nil {
		return nil, err
	}
	if _, err := weightedbackends.Parse(weightedbackends.Format(s.Split)); err != nil {
		return nil, err
	}
	if s.ResponseHeader != nil && *s.ResponseHeader < 0 {
		return nil, fmt.Errorf("a timeout of %v", *s.ResponseHeader)
	}
	r := &Route{
		Name: name, UID: s.UID, Backends: make([]Backend, len(s.Split)), ResponseHeader: s.ResponseHeader, AccessLog: s.AccessLog,
		spec: &validSpec{match: newMatcher(name, s.Created, s.Hosts, s.PathPrefixes, s.Headers, s.Allowed), responseHeader: s.ResponseHeader},
	}
	for i, side := range s.Split {
		r.Backends[i] = Backend{Cluster: ClusterName(name, side.Service), Service: side.Service, Weight: uint32(side.Weight)}
	}
	return r, nil
}

// asRead returns an error for the first entry that read refuses or changes, or that is
// in the list twice.
func asRead[T comparable](what string, entries []T, read func(T) (T, error)) error {
	for i, entry := range entries {
		is, err := read(entry)
		switch {
		case err != nil:
			return err
		case is != entry || slices.Contains(entries[:i], entry):
			return fmt.Errorf("%s %v is not as it is served", what, entry)
		}
	}
	return nil
}
