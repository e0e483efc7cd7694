package gatewayapi

import (
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// unnamed stands for a writer that managedFields do not name.
const unnamed = "unknown"

// writer is a field manager, and when it has written last.
type writer struct {
	manager string
	at      time.Time
}

// lastWriterOf returns the manager that has written the rules of a route last
// (metadata.managedFields, as the API server keeps it): rules are an atomic list, so
// that one manager has them at a time, unless several have applied the same.
func lastWriterOf(entries []metav1.ManagedFieldsEntry) writer {
	last := writer{manager: unnamed}
	for _, entry := range entries {
		var fields struct {
			Spec struct {
				Rules json.RawMessage `json:"f:rules"`
			} `json:"f:spec"`
		}
		if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.Raw, &fields) != nil || fields.Spec.Rules == nil {
			continue
		}
		at := time.Time{}
		if entry.Time != nil {
			at = entry.Time.Time
		}
		if last.manager == unnamed || at.After(last.at) {
			last = writer{entry.Manager, at}
		}
	}
	return last
}

func (w writer) String() string {
	if w.at.IsZero() {
		return w.manager
	}
	return fmt.Sprintf("%s (%s)", w.manager, w.at.UTC().Format(time.RFC3339))
}

// subject names the writer at the beginning of a sentence.
func (w writer) subject() string {
	if w.manager == unnamed {
		return "something that the route's metadata.managedFields do not name"
	}
	return "field manager " + w.String()
}
