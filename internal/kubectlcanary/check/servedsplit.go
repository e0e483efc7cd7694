package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// wantedSplit returns what a proxy is to do for an HTTPScaledObject: its
// annotation, or all to the Service that it targets. It is false where that
// cannot be served, so that the proxies stay at what was before: annotation,
// services-exist or target-service say why.
func wantedSplit(n namespaceSnapshot, o httpScaledObject) ([]weightedbackends.Backend, bool) {
	split := []weightedbackends.Backend{{Service: o.Spec.ScaleTargetRef.Service, Weight: 1}}
	if value, found := o.Annotations[weightedbackends.Annotation]; found {
		var err error
		if split, err = weightedbackends.Parse(value); err != nil {
			return nil, false
		}
	}
	if n.services.Err != nil {
		return split, true
	}
	for _, backend := range split {
		service := n.service(backend.Service)
		if service == nil || backendPort(service, o) == nil {
			return nil, false
		}
	}
	return split, true
}

// servedSplit is a split that a proxy serves.
type servedSplit struct {
	// domain is the host of these requests; Envoy has a split for each host.
	domain  string
	weights []servedWeight
}

type servedWeight struct {
	service string
	weight  uint32
}

// sameShares tells whether a proxy serves the shares that are wanted. Weights
// are relative, and a backend at 0 is like none.
func sameShares(want []weightedbackends.Backend, got []servedWeight) bool {
	shares := map[string]uint64{}
	var wanted, total uint64
	for _, g := range got {
		shares[g.service] += uint64(g.weight)
		total += uint64(g.weight)
	}
	for _, w := range want {
		wanted += uint64(w.Weight)
	}
	if total == 0 {
		return false
	}
	rest := total
	for _, w := range want {
		if uint64(w.Weight)*total != shares[w.Service]*wanted {
			return false
		}
		rest -= shares[w.Service]
	}
	return rest == 0 // no other Service has a share
}

// describeServed writes weights as weightedbackends.Describe does.
func describeServed(weights []servedWeight) string {
	if len(weights) == 1 {
		return "all to " + weights[0].service
	}
	texts := make([]string, len(weights))
	for i, w := range weights {
		texts[i] = fmt.Sprintf("%s=%d", w.service, w.weight)
	}
	return strings.Join(texts, ",")
}

func describeWanted(split []weightedbackends.Backend) string {
	if len(split) == 1 {
		return "all to " + split[0].Service
	}
	return weightedbackends.Describe(split)
}

// difference says what of a split a proxy does not do, or "" when all is as
// wanted.
func difference(want []weightedbackends.Backend, splits []servedSplit) string {
	if len(splits) == 0 {
		return "has no route to it, expected " + describeWanted(want)
	}
	i := slices.IndexFunc(splits, func(s servedSplit) bool { return !sameShares(want, s.weights) })
	if i < 0 {
		return ""
	}
	at := ""
	if splits[i].domain != "" {
		at = " for host " + splits[i].domain
	}
	return fmt.Sprintf("serves %s%s, expected %s", describeServed(splits[i].weights), at, describeWanted(want))
}
