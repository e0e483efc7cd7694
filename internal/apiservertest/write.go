package apiservertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (s *Server) patch(w http.ResponseWriter, r *http.Request, of target) {
	if contentType := r.Header.Get("Content-Type"); contentType != "application/merge-patch+json" {
		status(w, http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, "want a merge patch: "+contentType, of.Request)
		return
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if !of.whole {
		s.patchAnnotations(w, r, text, of)
		return
	}
	patch := map[string]any{}
	if err := json.Unmarshal(text, &patch); err != nil {
		status(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error(), of.Request)
		return
	}
	s.write(w, r, of, versionIn(patch), func(object map[string]any) map[string]any { return merge(object, patch).(map[string]any) })
}

// update replaces an object, and requires the resourceVersion that the new one is based
// on.
func (s *Server) update(w http.ResponseWriter, r *http.Request, of target) {
	object := map[string]any{}
	if err := json.NewDecoder(r.Body).Decode(&object); err != nil {
		status(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error(), of.Request)
		return
	}
	version := versionIn(object)
	if version == "" || object["apiVersion"] != of.apiVersion || object["kind"] != of.kind {
		status(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, fmt.Sprintf("want %s %s with a resourceVersion", of.apiVersion, of.kind), of.Request)
		return
	}
	s.write(w, r, of, version, func(map[string]any) map[string]any { return object })
}

// write changes a whole object if it has this resourceVersion ("" is any). The status
// stays, and so does the metadata that the server keeps.
func (s *Server) write(w http.ResponseWriter, r *http.Request, of target, version string, change func(map[string]any) map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := of.Resource + "/" + of.Namespace + "/" + of.Name
	obj, ok := s.objects[key]
	switch {
	case !ok:
		NotFound(w, of.Request)
		return
	case version != "" && version != obj.ResourceVersion:
		Conflict(w, of.Request)
		return
	}
	old := plain(s.shown(of, obj))
	changed := plain(change(old))
	meta := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(encoded(changed), meta); err != nil {
		status(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error(), of.Request)
		return
	}
	annotations := map[string]*string{}
	for name := range obj.Annotations {
		annotations[name] = nil
	}
	for name, value := range meta.Annotations {
		annotations[name] = &value
		if there, ok := obj.Annotations[name]; ok && there == value {
			delete(annotations, name)
		}
	}
	next := obj.DeepCopy()
	next.Labels = meta.Labels
	delete(old, "metadata")
	delete(changed, "metadata")
	delete(changed, "status")
	if status, ok := old["status"]; ok {
		changed["status"] = status
	}
	if !reflect.DeepEqual(old, changed) {
		next.Generation++
	}
	s.bodies[key] = changed
	answer(w, http.StatusOK, s.shown(of, s.annotate(r.URL.Query().Get("fieldManager"), of.Resource, next, annotations)))
}

// merge applies a merge patch (RFC 7386), and changes neither value nor patch.
func merge(value, patch any) any {
	fields, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	old, _ := value.(map[string]any)
	merged := maps.Clone(old)
	if merged == nil {
		merged = map[string]any{}
	}
	for name, field := range fields {
		if field == nil {
			delete(merged, name)
		} else {
			merged[name] = merge(merged[name], field)
		}
	}
	return merged
}

func versionIn(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	version, _ := metadata["resourceVersion"].(string)
	return version
}

// plain returns an object as maps, lists and values of JSON.
func plain(object any) map[string]any {
	fields := map[string]any{}
	if err := json.Unmarshal(encoded(object), &fields); err != nil {
		panic(err)
	}
	return fields
}

func encoded(object any) []byte {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return text
}

// patchAnnotations applies a merge patch of annotations, and refuses one that changes
// more of an object's metadata.
func (s *Server) patchAnnotations(w http.ResponseWriter, r *http.Request, text []byte, of target) {
	var patch struct {
		Metadata struct {
			ResourceVersion string             `json:"resourceVersion"`
			Annotations     map[string]*string `json:"annotations"`
		} `json:"metadata"`
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&patch); err != nil {
		status(w, http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, fmt.Sprintf("want a merge patch of annotations: %v", err), of.Request)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	obj, ok := s.objects[of.Resource+"/"+of.Namespace+"/"+of.Name]
	if !ok {
		NotFound(w, of.Request)
		return
	}
	if patch.Metadata.ResourceVersion != "" && patch.Metadata.ResourceVersion != obj.ResourceVersion {
		Conflict(w, of.Request)
		return
	}
	answer(w, http.StatusOK, s.annotate(r.URL.Query().Get("fieldManager"), of.Resource, obj, patch.Metadata.Annotations))
}

// annotate changes annotations of an object, and records the field manager of each; s.mu
// is held.
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
