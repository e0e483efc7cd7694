package xds

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// maxVersionText bounds the text of the version of a route configuration, in
// bytes.
const maxVersionText = 32 << 10

// versionText returns the version of a route configuration of a table as it is sent to
// the Envoy: a hash of the content and, if this Envoy refuses objects or objects are
// invalid, a space and each of these objects with the form that is served in its place.
// The form is null for an object that is refused and not served.
//
// An Envoy that reconnects, to any interceptor, sends the version that it has. So the
// interceptor knows what to begin with, although no other interceptor has told it and
// nothing is kept for an Envoy that is away. Beyond maxVersionText forms are left out,
// first those of objects that the Envoy does not serve.
func (st *stream) versionText(v version, table *routes.Table) string {
	type entry struct {
		name   types.NamespacedName
		served *routes.Route
	}
	var all []entry
	for name, p := range st.routes.pending {
		served := table.Route(name)
		if st.refusesCurrent(name, p) && !sameRouting(served, st.table.Route(name)) && !st.standsIn(served) {
			all = append(all, entry{name, served})
		}
	}
	for name := range st.invalid {
		if served := table.Route(name); st.standsIn(served) && st.namespaces.HasObject(name) {
			all = append(all, entry{name, served})
		}
	}
	if len(all) == 0 {
		return v.String()
	}
	slices.SortFunc(all, func(a, b entry) int {
		if (a.served == nil) != (b.served == nil) {
			if a.served == nil {
				return 1
			}
			return -1
		}
		return compareNames(a.name, b.name)
	})
	var text bytes.Buffer
	text.WriteString(v.String())
	separator := " {"
	for _, e := range all {
		saved := []byte("null")
		if e.served != nil {
			saved = jsonOf(e.served.Save())
		}
		if text.Len()+len(saved)+len(e.name.String())+len(`,"":}`) > maxVersionText {
			continue
		}
		text.WriteString(separator)
		text.Write(jsonOf(e.name.String()))
		text.WriteByte(':')
		text.Write(saved)
		separator = ","
	}
	if separator == "," {
		text.WriteByte('}')
	}
	return text.String()
}

// standsIn tells whether a route, nil for none, is served in place of an invalid
// form of its object.
func (st *stream) standsIn(served *routes.Route) bool {
	if served == nil {
		return false
	}
	object, invalid := st.invalid[served.Name]
	return invalid && object.route.UID == served.UID
}

// refusesCurrent tells whether the Envoy lacks the current form of a pending object
// because it refuses it, and not because the form has yet to be sent.
func (st *stream) refusesCurrent(name types.NamespacedName, p *pendingObject) bool {
	if p.quarantined || p.restored && !st.routes.synced {
		return true
	}
	current := st.table.Route(name)
	return current != nil && slices.ContainsFunc(current.Backends, func(b routes.Backend) bool { return st.lacks(b.Cluster) })
}

// restore begins with the forms that an Envoy has in place of those that it refused,
// according to the text of its version. The first configuration leaves these forms as
// they are, so that the Envoy accepts it; then the objects are tried again. A text that
// is not from an interceptor is ignored. A forged text changes only the routes of its own
// stream.
func (st *stream) restore(text string) {
	s := &st.routes
	for name, saved := range savedIn(text) {
		p, current := s.pending[name], st.table.Route(name)
		if p == nil || current == nil {
			continue // the object is not for this Envoy, or no longer
		}
		p.restored = true
		if saved == nil || saved.UID != current.UID {
			continue
		}
		served, err := st.restored(name, saved)
		if err != nil {
			continue
		}
		if !slices.ContainsFunc(served.Backends, func(b routes.Backend) bool { return !st.clusters.known[b.Cluster].warm() }) {
			s.table = s.table.With(name, served)
		}
	}
}

// savedIn returns the forms that are served in place of objects, according to the text
// of a version; nil for an object that is not served.
func savedIn(text string) map[types.NamespacedName]*routes.SavedRoute {
	_, list, _ := strings.Cut(text, " ")
	var all map[string]*routes.SavedRoute
	if json.Unmarshal([]byte(list), &all) != nil {
		return nil
	}
	named := make(map[types.NamespacedName]*routes.SavedRoute, len(all))
	for key, saved := range all {
		namespace, object, _ := strings.Cut(key, "/")
		named[types.NamespacedName{Namespace: namespace, Name: object}] = saved
	}
	return named
}

// restored returns the form of an object that an Envoy says it has. It fails if that form
// is not valid.
func (st *stream) restored(name types.NamespacedName, saved *routes.SavedRoute) (*routes.Route, error) {
	served, err := saved.Restore(name)
	if err == nil {
		err = st.server.validated(served)
	}
	if err != nil {
		st.warn("an Envoy says it has routes that cannot be", "httpscaledobject", oneLine(name.String()), "reason", oneLine(err.Error()))
	}
	return served, err
}

func jsonOf(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // texts and numbers can always be written
	}
	return text
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}
