package xds

import (
	"maps"
	"slices"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
)

// sendListeners sends the listeners: once, as they never change.
func (st *stream) sendListeners(time.Time) error {
	there := make(map[string][]byte)
	if st.channels[lds].asked && !st.channels[lds].answered {
		for _, l := range st.server.render.Listeners() {
			there[l.GetName()] = marshal(l)
		}
		return st.sendSmall(lds, there)
	}
	return nil
}

// sendSecret sends the certificate to an Envoy that has a TLS listener. While there
// is no certificate, that listener waits for it.
func (st *stream) sendSecret(time.Time) error {
	ch := &st.channels[sds]
	if !ch.wanted[envoy.SecretName] || st.secret == nil {
		return nil
	}
	return st.sendSmall(sds, map[string][]byte{envoy.SecretName: st.secret})
}

// sendSmall sends the resources of a type that has few of them: with delta those that
// differ from what the Envoy has, with the state of the world all if one differs.
func (st *stream) sendSmall(k kind, there map[string][]byte) error {
	if !st.free(k) {
		return nil
	}
	r, f, has := &response{kind: k}, &flight{}, st.small[k]
	changed := false
	for _, name := range slices.Sorted(maps.Keys(there)) {
		is := newResource(name, versionOf(there[name]), there[name])
		r.version = combined(r.version, name, is.version)
		if is.version != has[name] {
			changed = true
		} else if st.delta {
			continue
		}
		r.resources = append(r.resources, is)
	}
	for name, v := range has {
		if there[name] == nil && v != 0 && k == lds {
			r.removed = append(r.removed, name)
			changed = true
		}
	}
	if st.channels[k].had == r.version && !st.channels[k].answered {
		changed = false
	}
	for name, content := range there {
		has[name] = versionOf(content)
	}
	if !changed {
		if !st.channels[k].answered {
			st.channels[k].adopt(r.version)
		}
		return nil
	}
	for _, name := range r.removed {
		delete(has, name)
	}
	return st.send(r, f)
}
