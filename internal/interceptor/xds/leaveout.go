package xds

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// maxLeftOut bounds how many groups of objects are left out of a first
// configuration, one at a time.
const maxLeftOut = 64

// servesOthers tells whether the Envoy serves routes from an earlier stream, of which
// this stream knows only what restore found: once the Envoy accepts a configuration,
// routes that are missing in it are gone.
func (st *stream) servesOthers() bool { return !st.routes.synced && st.channels[rds].had != 0 }

// searchFirst begins the search for the object at fault when an Envoy that serves
// routes from an earlier stream refuses the first configuration. It returns false when
// the caller has to search by halves. Halves come last: if the Envoy accepts a half, the
// routes of the other half are gone. searchFirst sends all objects but one group, which
// costs nothing while it is refused. With up to maxLeftOut objects a group is one
// object, so that the first configuration to be accepted lacks only the object at fault.
// With more objects, the others of its group are missing until they are found to be
// good. If objects of several groups are at fault, the Envoy accepts no configuration
// that lacks one group, and the search goes on by halves.
func (st *stream) searchFirst(push *routePush) bool {
	s := &st.routes
	if !st.servesOthers() {
		return false
	}
	if s.searched {
		return push.probe || len(s.leftOut) > 0
	}
	s.searched = true
	size := (len(push.objects) + maxLeftOut - 1) / maxLeftOut
	s.leftOut = slices.Collect(slices.Chunk(push.objects, size))
	return true
}

// withoutNextGroup returns a push of all objects that may be sent, except the next
// group; nil when all groups have been left out.
func (st *stream) withoutNextGroup() *routePush {
	s := &st.routes
	for len(s.leftOut) > 0 {
		group := s.leftOut[0]
		s.leftOut = s.leftOut[1:]
		without := make(map[types.NamespacedName]bool, len(group))
		for _, name := range group {
			without[name] = true
		}
		var objects []types.NamespacedName
		lacks := false
		for name, p := range s.pending {
			switch {
			case !st.due(name, p):
			case without[name]:
				lacks = true
			default:
				objects = append(objects, name)
			}
		}
		if lacks && len(objects) > 0 {
			slices.SortFunc(objects, compareNames)
			s.probed = true
			push := st.newPush(objects)
			push.probe = true
			return push
		}
	}
	return nil
}
