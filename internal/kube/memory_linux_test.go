package kube_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

const (
	manyRoutes = 5000
	routeSize  = 3 << 10
	// mostMB is the most that a process that watches so many routes may take here. The
	// limit for the plugin, which takes 5 MB more than this process, is 60; make
	// bench-plugin measures it. Beside other tests the garbage collector runs later: that
	// is worth 10 MB more.
	mostMB = 65
	// serverVariable makes the test binary that process; its value is the server's
	// address.
	serverVariable = "TEST_MEMORY_SERVER"
)

// memory is what a process takes, in MB.
type memory struct {
	Heap, RSS, PeakRSS float64
}

func (m memory) String() string {
	return fmt.Sprintf("heap %.1f MB, RSS %.1f MB, at its peak %.1f MB", m.Heap, m.RSS, m.PeakRSS)
}

// TestMemory has another process watch thousands of routes and shows what it
// takes: at the start, once it has them all, and after many reads.
func TestMemory(t *testing.T) {
	if address := os.Getenv(serverVariable); address != "" {
		watchManyRoutes(t, address)
		return
	}
	if raceEnabled() {
		t.Skip("the race detector takes many times the memory")
	}
	server := newServer(t)
	for i := range manyRoutes {
		server.PutObject(httpRoutes, largeRoute(t, i))
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestMemory$", "-test.count=1")
	cmd.Env = append(os.Environ(), serverVariable+"="+server.URL())
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var last memory
	lines := bufio.NewScanner(strings.NewReader(string(out)))
	measured := 0
	for lines.Scan() {
		what, text, ok := strings.Cut(lines.Text(), "\t")
		if !ok || json.Unmarshal([]byte(text), &last) != nil {
			continue
		}
		measured++
		t.Logf("%s: %s", what, last)
	}
	if measured != 3 {
		t.Fatalf("%d measurements:\n%s", measured, out)
	}
	if last.PeakRSS > mostMB {
		t.Errorf("%d routes take %.1f MB at the peak, want %d at most", manyRoutes, last.PeakRSS, mostMB)
	}
}

// watchManyRoutes runs in the process that is measured.
func watchManyRoutes(t *testing.T, address string) {
	var known atomic.Int32
	group := kube.NewGroup(func() (*rest.Config, error) { return &rest.Config{Host: address, QPS: -1}, nil }, kube.GroupOptions{
		Group: gatewayAPI, Kinds: []string{"HTTPRoute"}, Logger: hclog.NewNullLogger(),
		Index:   func(meta *metav1.ObjectMeta) []string { return slices.Collect(maps.Keys(meta.Annotations)) },
		Changed: func(string, string, string) { known.Add(1) },
	})
	defer group.Close()
	tell(t, "at the start")
	get(t, group, "app-0")
	watching(t, group, "HTTPRoute")
	eventually(t, "all routes are known", func() bool { return known.Load() == manyRoutes })
	debug.FreeOSMemory() // as the store itself does, at about this time
	tell(t, fmt.Sprintf("with %d routes", manyRoutes))
	began := time.Now()
	const reads = 10000
	for i := range reads {
		get(t, group, fmt.Sprintf("app-%d", i%500))
	}
	tell(t, fmt.Sprintf("after %d reads of %s each", reads, time.Since(began)/reads))
}

func tell(t *testing.T, what string) {
	t.Helper()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	now := memory{Heap: float64(m.HeapAlloc) / 1e6, RSS: statusMB(t, "VmRSS:"), PeakRSS: statusMB(t, "VmHWM:")}
	text, err := json.Marshal(now)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%s\t%s\n", what, text)
}

// statusMB returns a figure of this process that Linux keeps in kB.
func statusMB(t *testing.T, field string) float64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), field)
	kB, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	return kB * 1024 / 1e6
}

// largeRoute is an HTTPRoute of routeSize bytes of JSON, and half as much again of
// managedFields.
func largeRoute(t *testing.T, number int) *unstructured.Unstructured {
	t.Helper()
	// Names and paths that have little in common, as compression meets them.
	random := rand.New(rand.NewPCG(uint64(number), 0))
	word := func() string { return strconv.FormatUint(random.Uint64(), 36) }
	r := route(fmt.Sprintf("app-%d", number), labelled("app", word()))
	r.SetUID(types.UID(word() + word()))
	var rules []any
	stable, canary := word()+"-stable", word()+"-canary"
	for {
		rules = append(rules, map[string]any{
			"name":    word(),
			"matches": []any{map[string]any{"path": map[string]any{"type": "PathPrefix", "value": "/" + word() + "/" + word()}}},
			"backendRefs": []any{
				map[string]any{"group": "", "kind": "Service", "name": stable, "port": int64(80), "weight": int64(100)},
				map[string]any{"group": "", "kind": "Service", "name": canary, "port": int64(80), "weight": int64(0)},
			},
		})
		r.Object["spec"].(map[string]any)["rules"] = rules
		text, err := json.Marshal(r.Object)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > routeSize-250 {
			break
		}
	}
	r.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: "kubectl", Operation: "Update", FieldsType: "FieldsV1",
		FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:` + strings.Repeat("x", routeSize/2) + `":{}}`)},
	}})
	return r
}

func raceEnabled() bool {
	info, _ := debug.ReadBuildInfo()
	for _, setting := range info.Settings {
		if setting.Key == "-race" {
			return setting.Value == "true"
		}
	}
	return false
}
