package apiservertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
)

// create stores an object that does not exist yet. Events are kept apart: no request asks
// for one by its name.
func (s *Server) create(w http.ResponseWriter, r *http.Request, of target) {
	if of.Resource == "events" {
		s.createEvent(w, r, of.Request)
		return
	}
	body, meta := map[string]any{}, &metav1.PartialObjectMetadata{}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		status(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error(), of.Request)
		return
	}
	if err := json.Unmarshal(encoded(body), meta); err != nil || meta.Name == "" || body["kind"] == nil || meta.Namespace != "" && meta.Namespace != of.Namespace {
		status(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, fmt.Sprintf("want an object with a kind and a name, of the namespace that the request names: %v", err), of.Request)
		return
	}
	meta.Namespace, of.Name, meta.CreationTimestamp = of.Namespace, meta.Name, metav1.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	key := of.Resource + "/" + of.Namespace + "/" + of.Name
	if _, there := s.objects[key]; there {
		status(w, http.StatusConflict, metav1.StatusReasonAlreadyExists, fmt.Sprintf("%s %q already exists", of.Resource, of.Name), of.Request)
		return
	}
	s.bodies[key] = body
	s.store(of.Resource, meta)
	answer(w, http.StatusCreated, s.shown(of, meta))
}

func (s *Server) createEvent(w http.ResponseWriter, r *http.Request, request Request) {
	event := corev1.Event{}
	if err := json.NewDecoder(r.Body).Decode(&event); err != nil {
		status(w, http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, fmt.Sprintf("want an Event: %v", err), request)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, event)
	answer(w, http.StatusCreated, event)
}

// remove deletes an object; if the request names a UID, only the object with that UID. One that has
// finalizers stays, marked as being deleted.
func (s *Server) remove(w http.ResponseWriter, r *http.Request, of target) {
	var options metav1.DeleteOptions
	_ = json.NewDecoder(r.Body).Decode(&options) // the body may be empty
	s.mu.Lock()
	obj, ok := s.objects[of.Resource+"/"+of.Namespace+"/"+of.Name]
	s.mu.Unlock()
	switch {
	case !ok:
		NotFound(w, of.Request)
	case options.Preconditions != nil && options.Preconditions.UID != nil && *options.Preconditions.UID != obj.UID:
		Conflict(w, of.Request)
	case len(obj.Finalizers) > 0:
		s.mu.Lock()
		defer s.mu.Unlock()
		marked := obj.DeepCopy()
		if marked.DeletionTimestamp == nil {
			marked.DeletionTimestamp = new(metav1.Now())
			s.store(of.Resource, marked)
		}
		answer(w, http.StatusOK, s.shown(of, marked))
	default:
		s.Delete(of.Resource, of.Namespace, of.Name)
		answer(w, http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess})
	}
}

// hasFields tells whether an object matches a field selector; s.mu is held. A real server
// supports some fields of each resource, this one all.
func (s *Server) hasFields(of target, obj *metav1.PartialObjectMetadata, selector fields.Selector) bool {
	if selector.Empty() {
		return true
	}
	object := plain(s.shown(target{Request: of.Request, whole: true}, obj))
	there := fields.Set{}
	for _, requirement := range selector.Requirements() {
		value, _, _ := unstructured.NestedFieldNoCopy(object, strings.Split(requirement.Field, ".")...)
		there[requirement.Field] = fmt.Sprint(value)
	}
	return selector.Matches(there)
}
