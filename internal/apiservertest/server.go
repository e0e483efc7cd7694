// Package apiservertest is a small Kubernetes API server in memory, for tests
// that need what a real one cannot be made to show on demand: conflicts, 429,
// 500, answers that never come, grants that come and go. It serves any resource:
// get, list, watch and merge patch of objects or of their metadata alone, update
// of objects, with optimistic locking and field managers, create and delete; and
// discovery of API groups whose versions a test sets. Behaviour against the real
// thing is tested in the sandbox.
package apiservertest

import (
	"cmp"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Request is one request that the server has received.
type Request struct {
	Verb      string // get, list, watch, patch, update, create, delete or discover
	Resource  string // for discover: the group, or group/version
	Namespace string
	Name      string
}

func (r Request) String() string {
	return strings.TrimRight(fmt.Sprintf("%s %s %s/%s", r.Verb, r.Resource, r.Namespace, r.Name), "/ ")
}

// covers tells whether a list or watch is of the object with this key.
func (r Request) covers(key string) bool {
	prefix := r.Resource + "/"
	if r.Namespace != "" {
		prefix += r.Namespace + "/"
	}
	return strings.HasPrefix(key, prefix)
}

// Fault answers a request in place of the server. If it returns false, the server
// answers.
type Fault func(w http.ResponseWriter, r *http.Request, request Request) bool

// Server is the API server. Its methods may be called at any time.
type Server struct {
	http *httptest.Server

	mu       sync.Mutex
	version  int
	objects  map[string]*metav1.PartialObjectMetadata // resource/namespace/name
	bodies   map[string]map[string]any                // what whole objects have besides metadata
	events   []corev1.Event
	groups   map[string][]Version
	watchers map[chan event]target
	requests []Request
	fault    Fault
	cut      chan struct{} // closed and replaced to end all watches
}

type event struct {
	Type   string `json:"type"`
	Object any    `json:"object"`
}

// target is what a request is about, and the form of its answer.
type target struct {
	Request
	whole            bool // false: metadata alone
	selector         labels.Selector
	fields           fields.Selector
	apiVersion, kind string
}

// New starts a server that ends with the test.
func New(t testing.TB) *Server { return newServer(t, httptest.NewServer) }

// NewTLS is New with https, for tests of what trusts the certificate CA.
func NewTLS(t testing.TB) *Server {
	return newServer(t, func(handler http.Handler) *httptest.Server {
		server := httptest.NewUnstartedServer(handler)
		server.EnableHTTP2 = true // as API servers have it
		server.StartTLS()
		return server
	})
}

// CA returns the certificate of a server with TLS, which has signed itself, in PEM.
func (s *Server) CA() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
}

func newServer(t testing.TB, begin func(http.Handler) *httptest.Server) *Server {
	s := &Server{objects: map[string]*metav1.PartialObjectMetadata{}, bodies: map[string]map[string]any{}, groups: map[string][]Version{}, watchers: map[chan event]target{}, cut: make(chan struct{})}
	s.http = begin(http.HandlerFunc(s.serve))
	t.Cleanup(func() {
		s.http.CloseClientConnections()
		s.http.Close()
	})
	return s
}

// URL returns where the server listens.
func (s *Server) URL() string { return s.http.URL }

// Config returns a client configuration for the server.
func (s *Server) Config() (*rest.Config, error) { return &rest.Config{Host: s.http.URL, QPS: -1}, nil }

// Kubeconfig returns the text of a kubeconfig for the server.
func (s *Server) Kubeconfig() string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: test
clusters: [{name: test, cluster: {server: %q}}]
users: [{name: test, user: {}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
`, s.http.URL)
}

// SetFault lets a function answer requests before the server does; nil removes it.
func (s *Server) SetFault(fault Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// Requests returns the requests received since its last call.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	requests := s.requests
	s.requests = nil
	return requests
}

// EndWatches ends all watches, as an API server does from time to time.
func (s *Server) EndWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.cut)
	s.cut = make(chan struct{})
}

// Watches returns how many watches there are.
func (s *Server) Watches() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watchers)
}

// Put creates an object, or replaces its annotations.
func (s *Server) Put(resource, namespace, name string, annotations map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store(resource, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Annotations: annotations}})
}

// PutObject creates or replaces a whole object, as it is given.
func (s *Server) PutObject(resource string, object any) {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	meta, body := &metav1.PartialObjectMetadata{}, map[string]any{}
	if err := errors.Join(json.Unmarshal(text, meta), json.Unmarshal(text, &body)); err != nil {
		panic(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bodies[resource+"/"+meta.Namespace+"/"+meta.Name] = body
	s.store(resource, meta)
}

// Annotate sets annotations of an object, and removes those whose value is nil,
// as another field manager's update does.
func (s *Server) Annotate(manager, resource, namespace, name string, annotations map[string]*string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.annotate(manager, resource, s.objects[resource+"/"+namespace+"/"+name], annotations)
}

// Events returns the Events that were created.
func (s *Server) Events() []corev1.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// Delete removes an object.
func (s *Server) Delete(resource, namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := resource + "/" + namespace + "/" + name
	if obj, ok := s.objects[key]; ok {
		s.version++
		obj = obj.DeepCopy()
		obj.ResourceVersion = strconv.Itoa(s.version)
		s.tell(resource, "DELETED", obj, nil)
		delete(s.objects, key)
		delete(s.bodies, key)
	}
}

// Annotations returns an object's annotations.
func (s *Server) Annotations(resource, namespace, name string) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if obj, ok := s.objects[resource+"/"+namespace+"/"+name]; ok {
		return obj.Annotations
	}
	return nil
}

// Object returns a copy of a whole object as JSON has it; nil if it does not exist.
func (s *Server) Object(resource, namespace, name string) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	obj, ok := s.objects[resource+"/"+namespace+"/"+name]
	if !ok {
		return nil
	}
	return plain(s.shown(target{Request: Request{Resource: resource}, whole: true}, obj))
}

// store stores an object and sends it to the watches; s.mu is held.
func (s *Server) store(resource string, obj *metav1.PartialObjectMetadata) {
	key := resource + "/" + obj.Namespace + "/" + obj.Name
	kind := "ADDED"
	s.version++
	if old, ok := s.objects[key]; ok {
		kind = "MODIFIED"
		obj.UID = cmp.Or(obj.UID, old.UID)
	}
	obj.UID = cmp.Or(obj.UID, types.UID(fmt.Sprintf("uid-%d", s.version)))
	obj.TypeMeta = metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}
	obj.ResourceVersion = strconv.Itoa(s.version)
	old := s.objects[key]
	s.objects[key] = obj
	s.tell(resource, kind, obj, old)
}

// tell sends a change of an object to the watches; old is the object before it. To a watch whose
// selector no longer matches, the object is deleted; to one whose selector did not, it is new.
func (s *Server) tell(resource, kind string, obj, old *metav1.PartialObjectMetadata) {
	for watcher, of := range s.watchers {
		if !of.covers(resource + "/" + obj.Namespace + "/" + obj.Name) {
			continue
		}
		if !s.hasFields(of, obj, of.fields) {
			continue // tests select by names, which do not change
		}
		is := of.selector.Matches(labels.Set(obj.Labels))
		was := old != nil && of.selector.Matches(labels.Set(old.Labels))
		switch {
		case is && !was && kind == "MODIFIED":
			watcher <- event{"ADDED", s.shown(of, obj)}
		case is:
			watcher <- event{kind, s.shown(of, obj)}
		case was:
			watcher <- event{"DELETED", s.shown(of, obj)}
		}
	}
}

// shown returns an object in the form that a request has asked for; s.mu is held.
func (s *Server) shown(of target, obj *metav1.PartialObjectMetadata) any {
	if !of.whole {
		return obj
	}
	body := maps.Clone(s.bodies[of.Resource+"/"+obj.Namespace+"/"+obj.Name])
	if body == nil {
		body = map[string]any{}
	}
	body["metadata"] = obj.ObjectMeta
	if of.kind != "" {
		body["apiVersion"], body["kind"] = of.apiVersion, of.kind
	}
	return body
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	// /apis/GROUP/VERSION[/namespaces/NS]/RESOURCE[/NAME], or /api/VERSION...
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if parts[0] == "api" {
		parts = slices.Insert(parts, 1, "core")
	}
	if len(parts) == 2 && parts[0] == "apis" || len(parts) == 3 && strings.HasPrefix(parts[0], "api") {
		s.discover(w, r, parts[1], parts[2:])
		return
	}
	if len(parts) < 4 || !strings.HasPrefix(parts[0], "api") {
		status(w, http.StatusNotFound, metav1.StatusReasonNotFound, "no such path", Request{})
		return
	}
	group, version := parts[1], parts[2]
	parts = parts[3:]
	request := Request{}
	if parts[0] == "namespaces" && len(parts) > 2 {
		request.Namespace, parts = parts[1], parts[2:]
	}
	request.Resource = parts[0]
	if len(parts) > 1 {
		request.Name = parts[1]
	}
	switch {
	case r.Method == http.MethodPatch:
		request.Verb = "patch"
	case r.Method == http.MethodPut:
		request.Verb = "update"
	case r.Method == http.MethodPost:
		request.Verb = "create"
	case r.Method == http.MethodDelete:
		request.Verb = "delete"
	case request.Name != "":
		request.Verb = "get"
	case r.URL.Query().Get("watch") != "":
		request.Verb = "watch"
	default:
		request.Verb = "list"
	}
	s.mu.Lock()
	s.requests = append(s.requests, request)
	fault := s.fault
	s.mu.Unlock()
	if fault != nil && fault(w, r, request) {
		return
	}
	kind, served := s.kindOf(group, version, request.Resource)
	if !served {
		unknownPath(w)
		return
	}
	of := target{
		Request: request, whole: !strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata"),
		apiVersion: strings.TrimPrefix(group+"/"+version, "core/"), kind: kind,
	}
	switch request.Verb {
	case "watch":
		s.watch(w, r, of)
	case "patch":
		s.patch(w, r, of)
	case "update":
		s.update(w, r, of)
	case "create":
		s.create(w, r, of)
	case "delete":
		s.remove(w, r, of)
	case "get":
		s.get(w, of)
	default:
		s.list(w, r.URL.Query(), of)
	}
}

// Answer answers a get or a list of metadata with the current state. A Fault can record
// the answer and deliver it late.
func (s *Server) Answer(w http.ResponseWriter, request Request) {
	if request.Verb == "list" {
		s.list(w, nil, target{Request: request})
		return
	}
	s.get(w, target{Request: request})
}

func (s *Server) get(w http.ResponseWriter, of target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	obj, ok := s.objects[of.Resource+"/"+of.Namespace+"/"+of.Name]
	if !ok {
		NotFound(w, of.Request)
		return
	}
	answer(w, http.StatusOK, s.shown(of, obj))
}

// bookmark returns the event that ends the initial events of a watch; s.mu is held.
func (s *Server) bookmark(of target) event {
	object := &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"},
		ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: strconv.Itoa(s.version),
			Annotations:     map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		},
	}
	return event{"BOOKMARK", s.shown(of, object)}
}

// list answers in pages if there is a limit: the continue token is the last key of the
// page.
func (s *Server) list(w http.ResponseWriter, query url.Values, of target) {
	selector, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		status(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error(), of.Request)
		return
	}
	fieldSelector, err := fields.ParseSelector(query.Get("fieldSelector"))
	if err != nil {
		status(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error(), of.Request)
		return
	}
	limit, _ := strconv.Atoi(query.Get("limit"))
	s.mu.Lock()
	defer s.mu.Unlock()
	var list struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata"`
		Items           []any `json:"items"`
	}
	list.TypeMeta = metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"}
	if of.whole {
		list.TypeMeta = metav1.TypeMeta{Kind: of.kind + "List", APIVersion: of.apiVersion}
	}
	list.ResourceVersion = strconv.Itoa(s.version)
	list.Items = []any{}
	last := ""
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		obj := s.objects[key]
		if !of.covers(key) || key <= query.Get("continue") || !selector.Matches(labels.Set(obj.Labels)) ||
			!s.hasFields(of, obj, fieldSelector) {
			continue
		}
		if limit > 0 && len(list.Items) == limit {
			list.Continue = last
			break
		}
		list.Items, last = append(list.Items, s.shown(of, obj)), key
	}
	answer(w, http.StatusOK, list)
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request, of target) {
	since, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		status(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error(), of.Request)
		return
	}
	of.selector = selector
	if of.fields, err = fields.ParseSelector(r.URL.Query().Get("fieldSelector")); err != nil {
		status(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error(), of.Request)
		return
	}
	initial := r.URL.Query().Get("sendInitialEvents") == "true"
	if initial {
		since = 0
	}
	// Room for more events than any test makes at once: the sender holds the lock.
	events := make(chan event, 10000)
	s.mu.Lock()
	var changed []*metav1.PartialObjectMetadata
	for key, obj := range s.objects {
		if version, _ := strconv.Atoi(obj.ResourceVersion); of.covers(key) && version > since && selector.Matches(labels.Set(obj.Labels)) && s.hasFields(of, obj, of.fields) {
			changed = append(changed, obj)
		}
	}
	slices.SortFunc(changed, func(a, b *metav1.PartialObjectMetadata) int {
		return cmp.Or(cmp.Compare(len(a.ResourceVersion), len(b.ResourceVersion)), strings.Compare(a.ResourceVersion, b.ResourceVersion))
	})
	missed := make([]any, len(changed))
	for i, obj := range changed {
		missed[i] = s.shown(of, obj)
	}
	s.watchers[events] = of
	cut := s.cut
	timeout, _ := time.ParseDuration(r.URL.Query().Get("timeoutSeconds") + "s")
	over := time.NewTimer(cmp.Or(timeout, time.Hour))
	defer over.Stop()
	bookmark := s.bookmark(of)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, events)
	}()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	encoder := json.NewEncoder(w)
	for _, obj := range missed {
		_ = encoder.Encode(event{"MODIFIED", obj})
	}
	if initial {
		_ = encoder.Encode(bookmark)
	}
	w.(http.Flusher).Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-cut:
			return
		case <-over.C:
			return
		case e := <-events:
			if encoder.Encode(e) != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
	}
}

// NotFound answers 404 as the API server does for an object.
func NotFound(w http.ResponseWriter, request Request) {
	status(w, http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("%s %q not found", request.Resource, request.Name), request)
}

// Unauthorized answers 401, as to a token that is not known.
func Unauthorized(w http.ResponseWriter, request Request) {
	status(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized", request)
}

// Forbidden answers 403 as RBAC does.
func Forbidden(w http.ResponseWriter, request Request) {
	status(w, http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf("%s is forbidden: cannot %s resource %q", request.Resource, request.Verb, request.Resource), request)
}

// Conflict answers 409, as for an update of an older state.
func Conflict(w http.ResponseWriter, request Request) {
	status(w, http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified", request)
}

// Fail answers an error of the server's own, such as 500 or 503.
func Fail(w http.ResponseWriter, code int, request Request) {
	status(w, code, metav1.StatusReasonInternalError, http.StatusText(code), request)
}

// ComeBack answers an error, such as 429 or 503, with a Retry-After of so many seconds,
// as the API server does when it is overloaded.
func ComeBack(w http.ResponseWriter, code, seconds int, request Request) {
	reason := metav1.StatusReasonServiceUnavailable
	if code == http.StatusTooManyRequests {
		reason = metav1.StatusReasonTooManyRequests
	}
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	answer(w, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure,
		Reason:   reason,
		Message:  http.StatusText(code),
		Code:     int32(code),
		Details:  &metav1.StatusDetails{Name: request.Name, Kind: request.Resource, RetryAfterSeconds: int32(seconds)},
	})
}

func status(w http.ResponseWriter, code int, reason metav1.StatusReason, message string, request Request) {
	answer(w, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure,
		Reason:   reason,
		Message:  message,
		Code:     int32(code),
		Details:  &metav1.StatusDetails{Name: request.Name, Kind: request.Resource},
	})
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}
