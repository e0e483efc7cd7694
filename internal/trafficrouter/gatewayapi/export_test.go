package gatewayapi

import (
	"bytes"
	"io"
	"regexp"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter"
)

// known tells whether a route has been judged.
func (r *reports) known(ref trafficrouter.Ref) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.routes[ref] != nil
}

// backdate makes what has been seen of each route older.
func (r *reports) backdate(by time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, seen := range r.routes {
		seen.since = seen.since.Add(-by)
		for parent, since := range seen.unreported {
			seen.unreported[parent] = since.Add(-by)
		}
	}
}

var percent = regexp.MustCompile(`,?"percent":[0-9]+`)

// withoutPercent returns a request's body as a CRD without the field percent leaves it.
func withoutPercent(body io.ReadCloser) io.ReadCloser {
	text, err := io.ReadAll(body)
	if err != nil {
		panic(err)
	}
	return io.NopCloser(bytes.NewReader(percent.ReplaceAll(text, nil)))
}
