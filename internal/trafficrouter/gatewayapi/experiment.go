package gatewayapi

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
)

// setExperiments adds the destinations of the experiments to the rules, in their
// order, and removes those of experiments that are over.
func (d *draft) setExperiments(sources []*rule, wanted []ExperimentWeight) error {
	var kept []experiment
	for _, w := range wanted {
		e := experiment{Service: w.Service}
		if i := slices.IndexFunc(d.own.Experiments, func(e experiment) bool { return e.Service == w.Service }); i >= 0 {
			e.Ports = maps.Clone(d.own.Experiments[i].Ports)
		}
		kept = append(kept, e)
	}
	for _, r := range sources {
		present := d.dropExperiments(r, kept)
		for i := range kept {
			ref, err := d.experimentRef(r, &kept[i], wanted[i].Weight)
			if err != nil {
				return err
			}
			if was := present[kept[i].Service]; d.sameRef(was, ref) {
				ref = was
			}
			refs, _ := r.body["backendRefs"].([]any)
			r.body["backendRefs"] = append(slices.Clone(refs), any(ref))
		}
	}
	d.own.Experiments = kept
	for _, e := range kept {
		d.experiments = append(d.experiments, service{d.ro.Namespace, e.Service})
	}
	return nil
}

// dropExperiments takes the destinations of this Rollout's experiments, and those
// of the Services that are to be added, out of a rule, and returns them.
func (d *draft) dropExperiments(r *rule, added []experiment) map[string]map[string]any {
	var services []service
	for _, e := range slices.Concat(d.own.Experiments, added) {
		services = append(services, service{d.ro.Namespace, e.Service})
	}
	dropped := map[string]map[string]any{}
	refs, _ := r.body["backendRefs"].([]any)
	var kept []any
	for _, raw := range refs {
		ref, ok := raw.(map[string]any)
		b := backendOf(ref, d.namespace)
		if ok && slices.ContainsFunc(services, b.isService) {
			dropped[b.Name] = ref
			continue
		}
		kept = append(kept, raw)
	}
	if len(dropped) > 0 {
		r.body["backendRefs"] = kept
	}
	return dropped
}

// experimentRef makes the backendRef of an experiment's Service for a rule. It has
// what the backendRefs of stable and canary have in common: filters that only one
// of them has are not copied.
func (d *draft) experimentRef(r *rule, e *experiment, weight int32) (map[string]any, error) {
	stable, canary := d.refsTo(r, d.stable())[0], d.refsTo(r, d.canary())[0]
	neighbour := backendOf(stable, d.namespace)
	if neighbour.Port == 0 {
		return nil, d.errorf("%s: the backendRef to Service %s/%s has no port, so none can be found for Service %s of the experiment: add it", d.describe(r), d.ro.Namespace, d.ro.Stable, e.Service)
	}
	key := strconv.FormatInt(neighbour.Port, 10)
	if _, ok := e.Ports[key]; !ok {
		if d.ro.Port == nil {
			return nil, d.errorf("the port of Service %s/%s of the experiment is not known", d.ro.Namespace, e.Service)
		}
		port, err := d.ro.Port(e.Service, d.ro.Stable, int32(neighbour.Port))
		if err != nil {
			return nil, d.errorf("experiment: %w", err)
		}
		if e.Ports == nil {
			e.Ports = map[string]int32{}
		}
		e.Ports[key] = port
	}
	ref := map[string]any{}
	for field, value := range stable {
		if other, ok := canary[field]; ok && reflect.DeepEqual(value, other) {
			ref[field] = copyOf(value)
		}
	}
	ref["name"], ref["port"], ref["weight"] = e.Service, int64(e.Ports[key]), int64(weight)
	if d.namespace != d.ro.Namespace {
		ref["namespace"] = d.ro.Namespace
	}
	return ref, nil
}

// sameRef tells whether two backendRefs say the same, with the CRD's defaults.
func (d *draft) sameRef(a, b map[string]any) bool {
	return a != nil && reflect.DeepEqual(d.withDefaults(a), d.withDefaults(b))
}

func (d *draft) withDefaults(ref map[string]any) map[string]any {
	full := maps.Clone(ref)
	b := backendOf(ref, d.namespace)
	full["group"], full["kind"], full["namespace"] = b.Group, b.Kind, b.Namespace
	full["port"], full["weight"] = b.Port, weightOf(ref)
	return full
}
