package check

import (
	"flag"
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
	"clusters.json": "/config_dump?" + clustersQuery("shop/demo/").Encode(),
	"stats.json":    "/stats?" + statsQuery().Encode(),
}

// The files in testdata are what a real Envoy answers that is configured by files.
func TestEnvoyAnswersAsCaptured(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"bootstrap.yaml", "cds.yaml", "lds.yaml", "rds.yaml"} {
		text := strings.ReplaceAll(string(testdata(t, name)), "DIR", dir)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bootstrap, err := os.ReadFile(filepath.Join(dir, "bootstrap.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	envoy := envoytest.Start(t, bootstrap)
	envoy.WaitReady()
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
