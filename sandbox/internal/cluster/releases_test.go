package cluster

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPublish(t *testing.T) {
	l := Layout{Dir: t.TempDir()}
	source := filepath.Join(t.TempDir(), "source")
	if err := os.WriteFile(source, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := publish(l, map[string]string{"plugin-b": source, "plugin-a": source}); err != nil {
		t.Fatal(err)
	}
	var requests strings.Builder
	server := httptest.NewServer(releasesHandler(l.Releases(), slog.New(slog.NewTextHandler(&requests, nil))))
	defer server.Close()
	get := func(name string) (int, string) {
		response, err := http.Get(server.URL + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
	if code, body := get("plugin-a"); code != http.StatusOK || body != "abc" {
		t.Errorf("plugin-a: %d %q", code, body)
	}
	const sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if code, body := get("checksums.txt"); code != http.StatusOK || body != sum+"  plugin-a\n"+sum+"  plugin-b\n" {
		t.Errorf("checksums.txt: %d\n%s", code, body)
	}
	if code, _ := get("missing"); code != http.StatusNotFound {
		t.Errorf("missing: %d", code)
	}
	if !strings.Contains(requests.String(), "path=/plugin-a") {
		t.Errorf("the request is not logged:\n%s", requests.String())
	}
	for _, name := range []string{"../x", "a/b", "", ".", "..", "checksums.txt"} {
		if err := publish(l, map[string]string{name: source}); err == nil {
			t.Errorf("published as %q", name)
		}
	}
}
