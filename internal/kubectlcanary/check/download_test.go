package check

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// Files are fetched as the controller would fetch them.
func TestDownload(t *testing.T) {
	program := []byte("a program")
	right := sha256.Sum256(program)
	mux := http.NewServeMux()
	serveBytes := func(data []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) }
	}
	const name = "plugin-linux-amd64"
	mux.Handle("/"+name, serveBytes(program))
	mux.Handle("/moved", http.RedirectHandler("/"+name, http.StatusFound))
	mux.HandleFunc("/private", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "token" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		_, _ = w.Write(program)
	})
	releases := httptest.NewServer(mux)
	defer releases.Close()

	for _, c := range []struct {
		name, entry string
		want        Status
		says        string
	}{
		{name: "the pinned program", entry: "location: URL/" + name + "\n  sha256: " + hex.EncodeToString(right[:]), want: OK, says: "is the one that is pinned"},
		{name: "behind a redirect", entry: "location: URL/moved\n  sha256: " + hex.EncodeToString(right[:]), want: OK, says: "is the one that is pinned"},
		{name: "another program", entry: "location: URL/" + name + "\n  sha256: " + sum, want: Failure, says: "its sha256 is " + hex.EncodeToString(right[:])},
		{name: "not pinned", entry: "location: URL/" + name, want: Warning, says: "set sha256: " + hex.EncodeToString(right[:])},
		{name: "nothing there", entry: "location: URL/gone-linux-amd64\n  sha256: " + sum, want: Failure, says: "404 Not Found"},
		{name: "not reached", entry: "location: http://127.0.0.1:1/plugin-linux-amd64\n  sha256: " + sum, want: Warning, says: "cannot be fetched from here"},
		{name: "with a log-in", entry: "location: URL/private\n  sha256: " + hex.EncodeToString(right[:]) + "\n  headersFrom: [{secretRef: {name: login}}]", want: OK, says: "is the one that is pinned"},
		{name: "log-in missing", entry: "location: URL/private\n  sha256: " + hex.EncodeToString(right[:]) + "\n  headersFrom: [{secretRef: {name: gone}}]", want: Failure, says: "does not exist; headersFrom names it"},
		{name: "log-in secret", entry: "location: URL/private\n  sha256: " + hex.EncodeToString(right[:]) + "\n  headersFrom: [{secretRef: {name: hidden}}]", want: Warning, says: "need get on secrets hidden in namespace argo-rollouts"},
	} {
		t.Run(c.name, func(t *testing.T) {
			secrets := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/api/v1/namespaces/argo-rollouts/secrets/login":
					answer(w, http.StatusOK, map[string]any{"data": map[string][]byte{"Authorization": []byte("token")}})
				case "/api/v1/namespaces/argo-rollouts/secrets/hidden":
					status(w, http.StatusForbidden, "Forbidden", "no")
				default:
					status(w, http.StatusNotFound, "NotFound", "gone")
				}
			}))
			defer secrets.Close()
			cl, err := newCluster(&rest.Config{Host: secrets.URL})
			if err != nil {
				t.Fatal(err)
			}
			s := healthy()
			s.configData()[trafficRouterPlugins] = "- name: kedify/http\n  " + strings.ReplaceAll(c.entry, "URL", releases.URL)
			gatherDownloads(t.Context(), cl, s.controller, s.plugins)
			results := checkDownload(s.controller, s.plugins[0])
			if len(results) != 1 || results[0].Status != c.want || !strings.Contains(results[0].Message+results[0].Remedy, c.says) {
				t.Errorf("want %s with %q, got %+v", c.want, c.says, results)
			}
		})
	}
}
