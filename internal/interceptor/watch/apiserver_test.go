package watch

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
)

// apiServer serves lists and watches of whole objects as an API server does, pages
// included. The sandbox tests the interceptor with a real one.
type apiServer struct {
	t       *testing.T
	address string
	server  *http.Server

	mu      sync.Mutex
	version int
	objects map[string]map[string]object // by resource and namespace/name
	events  []event
	oldest  int // versions up to it are too old to watch from
	changed chan struct{}
	// fault answers a request in the server's stead, and returns whether it did.
	fault func(w http.ResponseWriter, verb, resource, namespace string) bool
	// initial is how watches that begin with all objects are answered.
	initial initialEvents
	asked   []string // verb resource; also "watch all" for a watch that begins with all objects
}

// initialEvents is what an API server makes of sendInitialEvents=true.
type initialEvents int

const (
	// sendInitial sends all objects, and then a bookmark.
	sendInitial initialEvents = iota
	// refuseInitial is an API server whose feature gate WatchList is off.
	refuseInitial
	// cutInitial cuts the connection before the bookmark.
	cutInitial
	// ignoreInitial is an API server that does not know the parameter. It ends the watch
	// when its time is over (sooner here), without a bookmark.
	ignoreInitial
)

type object map[string]any

type event struct {
	version  int
	resource string
	kind     string
	object   object
}

func newAPIServer(t *testing.T) *apiServer {
	s := &apiServer{t: t, objects: make(map[string]map[string]object), changed: make(chan struct{})}
	s.start("127.0.0.1:0")
	t.Cleanup(func() { _ = s.server.Close() })
	return s
}

func (s *apiServer) start(address string) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.address, s.server = l.Addr().String(), &http.Server{Handler: s}
	go func(server *http.Server) { _ = server.Serve(l) }(s.server) // ends with Close
}

// stop cuts all connections and refuses new ones, until restart.
func (s *apiServer) stop() { _ = s.server.Close() }

func (s *apiServer) restart() { s.start(s.address) }

func (s *apiServer) config() *rest.Config { return &rest.Config{Host: "http://" + s.address, QPS: -1} }

// put creates or replaces an object.
func (s *apiServer) put(resource, namespace, name string, o object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	m, _ := o["metadata"].(object)
	if m == nil {
		m = object{}
	}
	m["namespace"], m["name"], m["uid"], m["resourceVersion"] = namespace, name, "uid-"+name, strconv.Itoa(s.version)
	o["metadata"] = m
	kind := "MODIFIED"
	all := s.objects[resource]
	if all == nil {
		all = make(map[string]object)
		s.objects[resource] = all
	}
	if all[namespace+"/"+name] == nil {
		kind = "ADDED"
	}
	all[namespace+"/"+name] = o
	s.tell(event{s.version, resource, kind, o})
}

func (s *apiServer) delete(resource, namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	o := s.objects[resource][namespace+"/"+name]
	delete(s.objects[resource], namespace+"/"+name)
	s.tell(event{s.version, resource, "DELETED", o})
}

func (s *apiServer) tell(e event) {
	s.events = append(s.events, e)
	close(s.changed)
	s.changed = make(chan struct{})
}

// setFault lets f answer requests in the server's stead, and ends the open watches. A
// nil f removes the fault.
func (s *apiServer) setFault(f func(w http.ResponseWriter, verb, resource string) bool) {
	if f == nil {
		s.setNamespaceFault(nil)
		return
	}
	s.setNamespaceFault(func(w http.ResponseWriter, verb, resource, _ string) bool { return f(w, verb, resource) })
}

// setNamespaceFault is setFault for a fault that depends on the namespace, too, which
// is empty in requests for all namespaces.
func (s *apiServer) setNamespaceFault(f func(w http.ResponseWriter, verb, resource, namespace string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
	s.tell(event{kind: "END"})
}

// forget makes all versions so far too old to watch from: a watch has to begin with a
// list.
func (s *apiServer) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.oldest = s.version
	s.version++
}

// count returns how often this verb of this resource was requested.
func (s *apiServer) count(verb, resource string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, asked := range s.asked {
		if asked == verb+" "+resource {
			n++
		}
	}
	return n
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	resource, namespace := parts[len(parts)-1], ""
	if i := slices.Index(parts, "namespaces"); i >= 0 {
		namespace = parts[i+1]
	}
	query := r.URL.Query()
	verb := "list"
	if query.Get("watch") != "" && query.Get("watch") != "false" {
		verb = "watch"
	}
	s.mu.Lock()
	s.asked = append(s.asked, verb+" "+resource)
	fault := s.fault
	s.mu.Unlock()
	if fault != nil && fault(w, verb, resource, namespace) {
		return
	}
	name, _ := strings.CutPrefix(query.Get("fieldSelector"), "metadata.name=")
	if verb == "list" {
		s.list(w, resource, namespace, name, query.Get("continue"), query.Get("limit"))
		return
	}
	if query.Get("sendInitialEvents") == "true" {
		s.mu.Lock()
		s.asked = append(s.asked, "watch all "+resource)
		s.mu.Unlock()
		s.watchAll(w, r, resource, namespace, name)
		return
	}
	from, err := strconv.Atoi(query.Get("resourceVersion"))
	s.mu.Lock()
	tooOld := err != nil || from <= s.oldest && s.oldest > 0
	s.mu.Unlock()
	if tooOld {
		answer(w, apierrors.NewResourceExpired("too old resource version"))
		return
	}
	s.watch(w, r, from, resource, namespace, name)
}

// watchAll is a watch that begins with all objects.
func (s *apiServer) watchAll(w http.ResponseWriter, r *http.Request, resource, namespace, name string) {
	s.mu.Lock()
	from, as := s.version, s.initial
	if as == refuseInitial {
		s.mu.Unlock()
		answer(w, apierrors.NewInvalid(schema.GroupKind{Group: "meta.k8s.io", Kind: "ListOptions"}, "", field.ErrorList{
			field.Forbidden(field.NewPath("sendInitialEvents"), "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"),
		}))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	for _, o := range s.objects[resource] {
		if covers(o, namespace, name) {
			_ = json.NewEncoder(w).Encode(object{"type": "ADDED", "object": withType(resource, o)})
		}
	}
	s.mu.Unlock()
	switch as {
	case cutInitial:
		return
	case ignoreInitial:
		_ = http.NewResponseController(w).Flush()
		time.Sleep(time.Second)
		return
	case sendInitial:
		_ = json.NewEncoder(w).Encode(object{"type": "BOOKMARK", "object": withType(resource, object{"metadata": object{
			"resourceVersion": strconv.Itoa(from), "annotations": object{metav1.InitialEventsAnnotationKey: "true"},
		}})})
	}
	s.watch(w, r, from, resource, namespace, name)
}

// covers tells whether a request for a namespace and a name, each of which may be empty, is
// for an object, too.
func covers(o object, namespace, name string) bool {
	m := o["metadata"].(object)
	return (namespace == "" || m["namespace"] == namespace) && (name == "" || m["name"] == name)
}

// kindOf returns the apiVersion and kind of a resource.
func kindOf(resource string) (apiVersion, kind string) {
	switch resource {
	case "services":
		return "v1", "Service"
	case "endpointslices":
		return "discovery.k8s.io/v1", "EndpointSlice"
	}
	return "http.keda.sh/v1alpha1", "HTTPScaledObject"
}

func withType(resource string, o object) object {
	out := object{}
	for k, v := range o {
		out[k] = v
	}
	out["apiVersion"], out["kind"] = kindOf(resource)
	return out
}

func (s *apiServer) list(w http.ResponseWriter, resource, namespace, name, from, limit string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := make([]string, 0, len(s.objects[resource]))
	for key, o := range s.objects[resource] {
		if covers(o, namespace, name) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	start, _ := strconv.Atoi(from)
	end := len(keys)
	if most, _ := strconv.Atoi(limit); most > 0 {
		end = min(end, start+most)
	}
	head := object{"resourceVersion": strconv.Itoa(s.version)}
	if end < len(keys) {
		head["continue"] = strconv.Itoa(end)
	}
	items := []object{}
	for _, key := range keys[start:end] {
		items = append(items, withType(resource, s.objects[resource][key]))
	}
	apiVersion, kind := kindOf(resource)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object{"apiVersion": apiVersion, "kind": kind + "List", "metadata": head, "items": items})
}

func (s *apiServer) watch(w http.ResponseWriter, r *http.Request, from int, resource, namespace, name string) {
	timeout, _ := time.ParseDuration(r.URL.Query().Get("timeoutSeconds") + "s")
	over := time.After(timeout)
	s.mu.Lock()
	at := len(s.events)
	for i, e := range s.events {
		if e.version > from {
			at = i
			break
		}
	}
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = http.NewResponseController(w).Flush()
	for {
		s.mu.Lock()
		events, changed := s.events[at:], s.changed
		at = len(s.events)
		s.mu.Unlock()
		for _, e := range events {
			if e.kind == "END" {
				return
			}
			if e.resource != resource || !covers(e.object, namespace, name) {
				continue
			}
			_ = json.NewEncoder(w).Encode(object{"type": e.kind, "object": withType(resource, e.object)})
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-changed:
		case <-over:
			return
		case <-r.Context().Done():
			return
		}
	}
}

func answer(w http.ResponseWriter, status *apierrors.StatusError) {
	w.Header().Set("Content-Type", "application/json")
	status.ErrStatus.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	w.WriteHeader(int(status.ErrStatus.Code))
	_ = json.NewEncoder(w).Encode(status.ErrStatus)
}

// forbid refuses one verb of one resource.
func forbid(verb, resource string) func(http.ResponseWriter, string, string) bool {
	return func(w http.ResponseWriter, v, r string) bool {
		if v != verb || r != resource {
			return false
		}
		answer(w, apierrors.NewForbidden(schema.GroupResource{Resource: r}, "", fmt.Errorf("cannot %s resource %q", v, r)))
		return true
	}
}

// down drops every connection, as a load balancer does whose API server is away.
func down(w http.ResponseWriter, _, _ string) bool {
	if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = c.Close()
	}
	return true
}
