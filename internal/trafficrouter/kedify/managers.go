package kedify

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// writers are the field managers of annotations, each once.
type writers []string

// writersOf returns the managers of the annotations with these keys
// (metadata.managedFields, as the API server keeps it).
func writersOf(entries []metav1.ManagedFieldsEntry, keys []string) writers {
	var found writers
	for _, entry := range entries {
		var fields struct {
			Metadata struct {
				Annotations map[string]json.RawMessage `json:"f:annotations"`
			} `json:"f:metadata"`
		}
		if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.Raw, &fields) != nil {
			continue
		}
		for _, key := range keys {
			if _, owns := fields.Metadata.Annotations["f:"+key]; owns && !found.contain(entry.Manager) {
				found = append(found, entry.Manager)
			}
		}
	}
	return found
}

func (w writers) contain(manager string) bool { return slices.Contains(w, manager) }

func (w writers) String() string {
	if len(w) == 0 {
		return "unknown"
	}
	return strings.Join(w, ", ")
}

// describeManager returns the name of a field manager and the time of its last write.
func describeManager(entry metav1.ManagedFieldsEntry) string {
	at := "at an unknown time"
	if entry.Time != nil {
		at = entry.Time.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("%s %s", entry.Manager, at)
}
