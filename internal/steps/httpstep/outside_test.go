package httpstep

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// outside is a server that records its requests.
type outside struct {
	*httptest.Server
	mu       sync.Mutex
	requests []received
}

type received struct {
	method, path, body string
	header             http.Header
}

func newOutside(t *testing.T, handle http.HandlerFunc) *outside {
	t.Helper()
	o := &outside{}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		o.mu.Lock()
		o.requests = append(o.requests, received{r.Method, r.URL.RequestURI(), string(body), r.Header})
		o.mu.Unlock()
		handle(w, r)
	}))
	t.Cleanup(o.Close)
	return o
}

func (o *outside) all() []received {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]received(nil), o.requests...)
}

// count returns the number of requests with a method and a path prefix.
func (o *outside) count(method, path string) (n int) {
	for _, r := range o.all() {
		if r.method == method && strings.HasPrefix(r.path, path) {
			n++
		}
	}
	return n
}

func answer200(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
}

func secretOf(namespace, name string, data map[string]string) corev1.Secret {
	secret := corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{}}
	for key, value := range data {
		secret.Data[key] = []byte(value)
	}
	return secret
}

func ref(name, key string) string {
	return fmt.Sprintf(`{"valueFrom": {"secretKeyRef": {"name": %q, "key": %q}}}`, name, key)
}
