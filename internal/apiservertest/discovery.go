package apiservertest

import (
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Version is one version of an API group, and the resource name of each kind that
// it serves.
type Version struct {
	Name  string
	Kinds map[string]string
	// Cluster are kinds whose objects have no namespace.
	Cluster map[string]string
}

// Serve makes an API group consist of these versions, the preferred one first, and of no
// other resources. (The resources of groups without a call of Serve are served in any
// version, and discovery does not show them.) The core group, which is named "core", has one
// version. Watches go on.
func (s *Server) Serve(group string, versions ...Version) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groups[group] = slices.Clone(versions)
}

// kindOf returns the kind of a resource if Serve has named it, and whether the resource
// is served.
func (s *Server) kindOf(group, version, resource string) (kind string, served bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	versions, told := s.groups[group]
	for _, v := range versions {
		for kind, name := range v.Kinds {
			if v.Name == version && name == resource {
				return kind, true
			}
		}
	}
	return "", !told
}

// discover answers which versions a group has, or which kinds one of them has.
func (s *Server) discover(w http.ResponseWriter, r *http.Request, group string, version []string) {
	request := Request{Verb: "discover", Resource: strings.Join(append([]string{group}, version...), "/")}
	s.mu.Lock()
	s.requests = append(s.requests, request)
	fault, versions := s.fault, s.groups[group]
	s.mu.Unlock()
	if fault != nil && fault(w, r, request) {
		return
	}
	if len(version) == 0 && len(versions) > 0 {
		answer(w, http.StatusOK, discoveredGroup(group, versions))
		return
	}
	for _, v := range versions {
		if len(version) == 1 && v.Name == version[0] {
			list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: strings.TrimPrefix(group+"/"+v.Name, "core/")}
			for namespaced, kinds := range map[bool]map[string]string{true: v.Kinds, false: v.Cluster} {
				for kind, name := range kinds {
					list.APIResources = append(list.APIResources, metav1.APIResource{Name: name, Kind: kind, Namespaced: namespaced}, metav1.APIResource{Name: name + "/status", Kind: kind, Namespaced: namespaced})
				}
			}
			answer(w, http.StatusOK, list)
			return
		}
	}
	unknownPath(w)
}

// discoveredGroup lists the preferred version last: clients must not rely on the order.
func discoveredGroup(group string, versions []Version) metav1.APIGroup {
	discovered := metav1.APIGroup{TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: group}
	for _, v := range slices.Backward(versions) {
		discovered.Versions = append(discovered.Versions, metav1.GroupVersionForDiscovery{GroupVersion: group + "/" + v.Name, Version: v.Name})
	}
	discovered.PreferredVersion = discovered.Versions[len(versions)-1]
	return discovered
}

// unknownPath answers as the API server does for a path that it does not serve: without
// the Status that it sends for an object that does not exist.
func unknownPath(w http.ResponseWriter) {
	http.Error(w, "404 page not found", http.StatusNotFound)
}
