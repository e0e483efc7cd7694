package e2etest

import (
	"errors"
	"net/http"
	"testing"
	"time"
)

// Serve serves HTTP at the node's address until the test ends, and returns the
// URL, without a slash at its end. Pods reach it.
func Serve(t testing.TB, handler http.Handler) string {
	t.Helper()
	listener := ListenForPods(t)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("closing the server: %v", err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("the server ended: %v", err)
		}
	})
	return "http://" + listener.Addr().String()
}
