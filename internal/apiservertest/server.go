// Package apiservertest is a small Kubernetes API server in memory, for tests
// that need what a real one cannot be made to show on demand: conflicts, 429,
// 500, answers that never come, grants that come and go. It serves any resource:
// get of whole objects, list and watch of their metadata, merge patch of
// annotations with optimistic locking and field managers, and create of Events.
// Behaviour against the real thing is tested in the sandbox.
package apiservertest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Request is one request the server has answered.
type Request struct {
	Verb      string // get, list, watch, patch or create
	Resource  string
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

// Fault answers a request in the server's stead. It returns false to let the
// server answer.
type Fault func(w http.ResponseWriter, r *http.Request, request Request) bool

// Server is the API server. Its methods may be called at any time.
type Server struct {
	http *httptest.Server

	mu       sync.Mutex
	version  int
	objects  map[string]*metav1.PartialObjectMetadata // resource/namespace/name
	bodies   map[string]map[string]any                // what whole objects have besides metadata
	events   []corev1.Event
	watchers map[chan event]Request
	requests []Request
	fault    Fault
	cut      chan struct{} // closed and replaced to end all watches
}

type event struct {
	Type   string                        `json:"type"`
	Object *metav1.PartialObjectMetadata `json:"object"`
}

// New starts a server that ends with the test.
func New(t testing.TB) *Server {
	s := &Server{objects: map[string]*metav1.PartialObjectMetadata{}, bodies: map[string]map[string]any{}, watchers: map[chan event]Request{}, cut: make(chan struct{})}
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
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

// SetFault lets a function answer requests first; nil ends that.
func (s *Server) SetFault(fault Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// Requests returns the requests answered since the last call of it.
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
		delete(s.objects, key)
		delete(s.bodies, key)
		s.version++
		s.tell(resource, event{"DELETED", obj})
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

// store puts an object and tells the watchers; s.mu is held.
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
	s.objects[key] = obj
	s.tell(resource, event{kind, obj})
}

func (s *Server) tell(resource string, e event) {
	for watcher, request := range s.watchers {
		if request.covers(resource + "/" + e.Object.Namespace + "/" + e.Object.Name) {
			watcher <- e
		}
	}
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	// /apis/GROUP/VERSION[/namespaces/NS]/RESOURCE[/NAME], or /api/VERSION...
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if parts[0] == "api" {
		parts = slices.Insert(parts, 1, "core")
	}
	if len(parts) < 4 || !strings.HasPrefix(parts[0], "api") {
		status(w, http.StatusNotFound, metav1.StatusReasonNotFound, "no such path", Request{})
		return
	}
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
	case r.Method == http.MethodPost:
		request.Verb = "create"
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
	switch request.Verb {
	case "watch":
		s.watch(w, r, request)
	case "patch":
		s.patch(w, r, request)
	case "create":
		s.create(w, r, request)
	case "get":
		s.get(w, request, !strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata"))
	default:
		s.Answer(w, request)
	}
}

// Answer answers a get or a list as the server would now; for a Fault that
// delivers it late.
func (s *Server) Answer(w http.ResponseWriter, request Request) {
	if request.Verb == "list" {
		s.list(w, request)
		return
	}
	s.get(w, request, false)
}

func (s *Server) get(w http.ResponseWriter, request Request, whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := request.Resource + "/" + request.Namespace + "/" + request.Name
	obj, ok := s.objects[key]
	if !ok {
		NotFound(w, request)
		return
	}
	if !whole {
		answer(w, http.StatusOK, obj)
		return
	}
	body := maps.Clone(s.bodies[key])
	if body == nil {
		body = map[string]any{}
	}
	body["metadata"] = obj.ObjectMeta
	answer(w, http.StatusOK, body)
}

// create takes Events and nothing else.
func (s *Server) create(w http.ResponseWriter, r *http.Request, request Request) {
	event := corev1.Event{}
	if err := json.NewDecoder(r.Body).Decode(&event); err != nil || request.Resource != "events" {
		status(w, http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, fmt.Sprintf("want an Event: %v", err), request)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, event)
	answer(w, http.StatusCreated, event)
}

func (s *Server) list(w http.ResponseWriter, request Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := metav1.PartialObjectMetadataList{
		TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"},
		ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)},
		Items:    []metav1.PartialObjectMetadata{},
	}
	for key, obj := range s.objects {
		if request.covers(key) {
			list.Items = append(list.Items, *obj)
		}
	}
	answer(w, http.StatusOK, list)
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request, request Request) {
	since, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	// Room for more than any test makes at once: the sender holds the lock.
	events := make(chan event, 10000)
	s.mu.Lock()
	var missed []*metav1.PartialObjectMetadata
	for key, obj := range s.objects {
		if version, _ := strconv.Atoi(obj.ResourceVersion); request.covers(key) && version > since {
			missed = append(missed, obj)
		}
	}
	s.watchers[events] = request
	cut := s.cut
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, events)
	}()
	slices.SortFunc(missed, func(a, b *metav1.PartialObjectMetadata) int {
		return cmp.Or(cmp.Compare(len(a.ResourceVersion), len(b.ResourceVersion)), strings.Compare(a.ResourceVersion, b.ResourceVersion))
	})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	encoder := json.NewEncoder(w)
	for _, obj := range missed {
		_ = encoder.Encode(event{"MODIFIED", obj})
	}
	w.(http.Flusher).Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-cut:
			return
		case e := <-events:
			if encoder.Encode(e) != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
	}
}

// patch takes a merge patch of annotations and nothing else: whoever tries to
// change more is told so.
func (s *Server) patch(w http.ResponseWriter, r *http.Request, request Request) {
	var patch struct {
		Metadata struct {
			ResourceVersion string             `json:"resourceVersion"`
			Annotations     map[string]*string `json:"annotations"`
		} `json:"metadata"`
	}
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&patch); err != nil || r.Header.Get("Content-Type") != "application/merge-patch+json" {
		status(w, http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, fmt.Sprintf("want a merge patch of annotations: %v", err), request)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	obj, ok := s.objects[request.Resource+"/"+request.Namespace+"/"+request.Name]
	if !ok {
		NotFound(w, request)
		return
	}
	if patch.Metadata.ResourceVersion != "" && patch.Metadata.ResourceVersion != obj.ResourceVersion {
		Conflict(w, request)
		return
	}
	answer(w, http.StatusOK, s.annotate(r.URL.Query().Get("fieldManager"), request.Resource, obj, patch.Metadata.Annotations))
}

// annotate changes annotations of an object, and with them who manages each;
// s.mu is held.
func (s *Server) annotate(manager, resource string, obj *metav1.PartialObjectMetadata, annotations map[string]*string) *metav1.PartialObjectMetadata {
	changed := obj.DeepCopy()
	managed := map[string][]string{}
	for _, entry := range obj.ManagedFields {
		managed[entry.Manager] = fieldsOf(entry)
	}
	for key, value := range annotations {
		for other, keys := range managed {
			managed[other] = slices.DeleteFunc(keys, func(k string) bool { return k == key })
		}
		if value == nil {
			delete(changed.Annotations, key)
			continue
		}
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, key, *value)
		managed[manager] = append(managed[manager], key)
	}
	changed.ManagedFields = nil
	for name, keys := range managed {
		if len(keys) > 0 {
			changed.ManagedFields = append(changed.ManagedFields, managedEntry(name, keys))
		}
	}
	s.store(resource, changed)
	return changed
}

// managedFields is the form of metadata.managedFields.
type managedFields struct {
	Metadata struct {
		Annotations map[string]struct{} `json:"f:annotations"`
	} `json:"f:metadata"`
}

func fieldsOf(entry metav1.ManagedFieldsEntry) []string {
	var fields managedFields
	if err := json.Unmarshal(entry.FieldsV1.Raw, &fields); err != nil {
		panic(err)
	}
	keys := make([]string, 0, len(fields.Metadata.Annotations))
	for key := range fields.Metadata.Annotations {
		keys = append(keys, strings.TrimPrefix(key, "f:"))
	}
	return keys
}

func managedEntry(manager string, keys []string) metav1.ManagedFieldsEntry {
	var fields managedFields
	fields.Metadata.Annotations = map[string]struct{}{}
	for _, key := range keys {
		fields.Metadata.Annotations["f:"+key] = struct{}{}
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	now := metav1.Now()
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Time: &now, FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: raw}}
}

// NotFound answers 404 as the API server does for an object.
func NotFound(w http.ResponseWriter, request Request) {
	status(w, http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("%s %q not found", request.Resource, request.Name), request)
}

// Forbidden answers 403 as RBAC does.
func Forbidden(w http.ResponseWriter, request Request) {
	status(w, http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf("%s is forbidden: cannot %s", request.Resource, request.Verb), request)
}

// Conflict answers 409 as an update of an older state gets it.
func Conflict(w http.ResponseWriter, request Request) {
	status(w, http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified", request)
}

// Fail answers an error of the server's own, such as 500 or 503.
func Fail(w http.ResponseWriter, code int, request Request) {
	status(w, code, metav1.StatusReasonInternalError, http.StatusText(code), request)
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
