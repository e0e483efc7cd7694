package check

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoytest"
)

var update = flag.Bool("update", false, "write testdata/envoy/*.json as Envoy answers")

// captured maps the files with Envoy's answers, which other tests read, to the requests
// that the checks send to Envoy.
var captured = map[string]string{
	"routes.json":   "/config_dump?" + routesQuery(dynamicRoutes).Encode(),
	"inline.json":   "/config_dump?" + routesQuery(inlineRoutes).Encode(),
	"clusters.json": "/config_dump?" + clustersQuery(activeClusters, "shop/demo/").Encode(),
	"warming.json":  "/config_dump?" + clustersQuery(warmClusters, "shop/demo/").Encode(),
	"stats.json":    "/stats?" + statsQuery().Encode(),
}

// The files in testdata are what a real Envoy answers: one that is configured by files,
// and whose last cluster waits for endpoints that never come.
func TestEnvoyAnswersAsCaptured(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, sources ...string) {
		t.Helper()
		var text strings.Builder
		for _, source := range sources {
			data, err := os.ReadFile(filepath.Join("testdata", "envoy", source))
			if err != nil {
				t.Fatal(err)
			}
			text.WriteString(strings.ReplaceAll(string(data), "DIR", dir))
		}
		// Envoy sees a file that is moved into place.
		if err := os.WriteFile(filepath.Join(dir, "new"), []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"bootstrap.yaml", "cds.yaml", "lds.yaml", "rds.yaml"} {
		write(name, name)
	}
	bootstrap, err := os.ReadFile(filepath.Join(dir, "bootstrap.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	envoy := envoytest.Start(t, bootstrap)
	envoy.WaitReady()
	write("cds.yaml", "cds.yaml", "warming.yaml")
	envoy.Wait("the cluster that waits for its endpoints", func() error {
		if text, err := envoy.Get(captured["warming.json"]); err != nil || !strings.Contains(text, "demo-late") {
			return fmt.Errorf("there are %q (%w)", text, err)
		}
		return nil
	})
	for name, question := range captured {
		got, err := envoy.Get(question)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", "envoy", name)
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want := testdata(t, name)
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (go test -update writes it anew; -captured +answered):\n%s", question, diff)
		}
	}
}

func testdata(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "envoy", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}
