package gatewayapi

import (
	"bytes"
	"io"
	"regexp"
	"time"
)

// known tells whether the age of a route's generation has been asked for.
func (r *reports) known(ref routeRef) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.since[ref]
	return ok
}

// backdate makes the current generation of each route older.
func (r *reports) backdate(by time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for ref, since := range r.since {
		since.at = since.at.Add(-by)
		r.since[ref] = since
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
