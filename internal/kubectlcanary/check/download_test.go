package check

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// TestDownload fetches this test's own binary, which is a program for the
// platform that it runs on.
func TestDownload(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	right := sha256.Sum256(program)
	page := []byte("<html>")
	pageSum := sha256.Sum256(page)
	mux := http.NewServeMux()
	serveBytes := func(data []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) }
	}
	name := fmt.Sprintf("plugin-%s-%s", runtime.GOOS, runtime.GOARCH)
	mux.Handle("/"+name, serveBytes(program))
	mux.Handle("/page-linux-amd64", serveBytes(page))
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
		name, entry    string
		want           Status
		says           string
		platform       Status
		nodeArch       string
		withoutSecrets bool
	}{
		{name: "the pinned program", entry: "location: URL/" + name + "\n  sha256: " + hex.EncodeToString(right[:]), want: OK, says: "is pinned"},
		{name: "behind a redirect", entry: "location: URL/moved\n  sha256: " + hex.EncodeToString(right[:]), want: OK, says: "is pinned"},
		{name: "another program", entry: "location: URL/" + name + "\n  sha256: " + sum, want: Failure, says: "its sha256 is " + hex.EncodeToString(right[:])},
		{name: "not pinned", entry: "location: URL/" + name, want: Warning, says: "set sha256: " + hex.EncodeToString(right[:])},
		{name: "a web page", entry: "location: URL/page-linux-amd64\n  sha256: " + hex.EncodeToString(pageSum[:]), want: Failure, says: "no program"},
		{name: "nothing there", entry: "location: URL/gone-linux-amd64\n  sha256: " + sum, want: Failure, says: "404 Not Found"},
		{name: "not reached", entry: "location: http://127.0.0.1:1/plugin-linux-amd64\n  sha256: " + sum, want: Warning, says: "cannot be fetched from here"},
		{name: "on the controller's disk", entry: "location: file:///x", want: Warning, says: "controller's disk"},
		{name: "with a log-in", entry: "location: URL/private\n  sha256: " + hex.EncodeToString(right[:]) + "\n  headersFrom: [{secretRef: {name: login}}]", want: OK, says: "is pinned"},
		{name: "log-in missing", entry: "location: URL/private\n  sha256: " + hex.EncodeToString(right[:]) + "\n  headersFrom: [{secretRef: {name: gone}}]", want: Failure, says: "does not exist; headersFrom names it"},
		{name: "log-in secret", entry: "location: URL/private\n  sha256: " + hex.EncodeToString(right[:]) + "\n  headersFrom: [{secretRef: {name: hidden}}]", want: Warning, says: "need get on secrets hidden in namespace argo-rollouts"},
		{name: "program of another platform behind a plain name", entry: "location: URL/moved\n  sha256: " + hex.EncodeToString(right[:]), want: OK, nodeArch: "s390x", platform: Failure},
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
			node := s.controller.nodes["node-1"]
			node.Value.Status.NodeInfo.OperatingSystem, node.Value.Status.NodeInfo.Architecture = runtime.GOOS, runtime.GOARCH
			if c.nodeArch != "" {
				node.Value.Status.NodeInfo.Architecture = c.nodeArch
			}
			s.controller.nodes["node-1"] = node
			s.configData()[trafficRouterPlugins] = "- name: kedify/http\n  " + strings.ReplaceAll(c.entry, "URL", releases.URL)
			d := gatherDownload(t.Context(), cl, s.controller, kedifyRouter)
			results := checkDownload(s.controller, pluginSnapshot{router: kedifyRouter, download: d})
			// With cgo this test itself is linked dynamically, which is a
			// second finding.
			if d.binary != nil && d.binary.dynamic {
				results = results[:1]
			}
			if len(results) != 1 || results[0].Status != c.want || !strings.Contains(results[0].Message+results[0].Remedy, c.says) {
				t.Errorf("want %s with %q, got %+v", c.want, c.says, results)
			}
			if c.platform != OK || c.nodeArch != "" {
				results := checkPlatform(s.controller, pluginSnapshot{router: kedifyRouter, download: d})
				if len(results) != 1 || results[0].Status != c.platform || !strings.Contains(results[0].Message, "the binary is for "+runtime.GOOS) {
					t.Errorf("platform: %+v", results)
				}
			}
		})
	}
}

// TestDynamicProgram: a program that names a loader does not run in the
// controller's image, which has none.
func TestDynamicProgram(t *testing.T) {
	const headerSize, programSize = 64, 56
	file := make([]byte, headerSize+programSize)
	copy(file, "\x7fELF\x02\x01\x01")
	put := binary16(file)
	put(16, 2)                      // ET_EXEC
	put(18, uint16(elf.EM_AARCH64)) // machine
	put(20, 1)                      // version
	put(32, headerSize)             // program headers start
	put(52, headerSize)             // size of this header
	put(54, programSize)            // size of a program header
	put(56, 1)                      // number of program headers
	put(headerSize, uint16(elf.PT_INTERP))
	got := readBinary(file)
	if got == nil || !got.dynamic || got.platform.String() != "linux/arm64" {
		t.Fatalf("got %+v", got)
	}
	s := healthy()
	d := &downloaded{status: "200 OK", sum: sum, size: int64(len(file)), binary: got}
	results := checkDownload(s.controller, pluginSnapshot{router: kedifyRouter, download: d})
	if len(results) != 2 || results[1].Status != Failure || !strings.Contains(results[1].Message, "linked dynamically") {
		t.Errorf("got %+v", results)
	}
	results = checkPlatform(s.controller, pluginSnapshot{router: kedifyRouter, download: d})
	if len(results) != 1 || results[0].Status != Failure || !strings.Contains(results[0].Message, "the binary is for linux/arm64") {
		t.Errorf("got %+v", results)
	}
}

// binary16 returns a function that writes a little-endian number into file.
func binary16(file []byte) func(at int, value uint16) {
	return func(at int, value uint16) { binary.LittleEndian.PutUint16(file[at:], value) }
}

func TestAssetPlatform(t *testing.T) {
	for location, want := range map[string]string{
		"https://x/rollouts-plugin-kedify-linux-amd64":  "linux/amd64",
		"https://x/rollouts-plugin-kedify-darwin-arm64": "darwin/arm64",
		"https://x/plugin_Linux_x86_64":                 "linux/amd64",
		"https://x/plugin.macos.aarch64":                "darwin/arm64",
		"https://linux-amd64.example.com/plugin":        "/",
		"https://x/linux/amd64":                         "/amd64",
		"https://x/charm-linux":                         "linux/",
	} {
		if got := assetPlatform(location).String(); got != want {
			t.Errorf("%s: got %s, want %s", location, got, want)
		}
	}
}
