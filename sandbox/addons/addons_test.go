package addons

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/image"
)

// `sandbox up --help` and the flags are made from these descriptions.
func TestDescriptions(t *testing.T) {
	all := All()
	names := addon.Names(all)
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("the names are not sorted, or not all different: %v", names)
	}
	if _, err := addon.Select(all, names, false); err != nil {
		t.Error(err)
	}
	for _, a := range all {
		if !regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`).MatchString(a.Name) {
			t.Errorf("add-on %q: the name must be of lower-case letters, digits and dashes", a.Name)
		}
		if a.Summary == "" || strings.ContainsAny(a.Summary, "\n\t") {
			t.Errorf("add-on %s: summary %q: must be one line", a.Name, a.Summary)
		}
	}
}

// The version shown for an add-on is the one that its go.mod pins.
func TestVersions(t *testing.T) {
	versioned := 0
	for _, a := range All() {
		if a.Version == "" {
			continue
		}
		versioned++
		module := a.Name
		if module == "envoy-gateway" {
			module = "envoyproxy/gateway"
		}
		path := filepath.Join(strings.ReplaceAll(a.Name, "-", ""), "programs", "go.mod")
		content, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
			continue
		}
		if !regexp.MustCompile(`(?m)[/\t ]` + regexp.QuoteMeta(module) + `(/v\d+)? ` + regexp.QuoteMeta(a.Version) + `( |$)`).Match(content) {
			t.Errorf("%s does not require %s %s", path, a.Name, a.Version)
		}
	}
	if versioned == 0 {
		t.Error("no add-on has a version")
	}
}

// The table of the images of these add-ons: which reference stands for what. An add-on
// with images of its own kind tests them in its package.
func TestImages(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var table image.Table
	programs := map[string][]string{
		"argo-rollouts": {"rollouts-controller"}, "contour": {"contour"}, "demo-app": {"rollouts-demo"},
		"envoy-gateway": {"envoy-gateway"},
		"interceptor":   {"interceptor", "scaler", "agent"}, "keda": {"operator", "adapter", "webhooks"}, "plugin": {"rollouts-plugin-kedify", "cp"}, "protocols": {"protocols"},
		"region":      {"region", "kubernetes", "objects.json"},
		"step-plugin": {"rollouts-plugin-step", "cp", "curl", "echo"},
	}
	for _, a := range All() {
		paths := make(addon.Paths)
		for _, name := range programs[a.Name] {
			paths[name] = filepath.Join("/programs", name)
		}
		if a.Name == "envoy" {
			paths["envoy"] = self // an ELF file, which the add-on can inspect
		}
		if len(paths) == 0 {
			continue
		}
		entries, err := a.Images(t.Context(), paths)
		if err != nil {
			t.Fatalf("add-on %s: %v", a.Name, err)
		}
		for _, entry := range entries {
			if err := table.Add(entry); err != nil {
				t.Errorf("add-on %s: %v", a.Name, err)
			}
		}
	}
	for ref, want := range map[string]struct {
		env     []string
		program string
	}{
		"argoproj/rollouts-demo:blue":                      {[]string{"COLOR=blue"}, "/programs/rollouts-demo"},
		"docker.io/argoproj/rollouts-demo:yellow":          {[]string{"COLOR=yellow"}, "/programs/rollouts-demo"},
		"argoproj/rollouts-demo:slow-red":                  {[]string{"COLOR=red", "LATENCY=2"}, "/programs/rollouts-demo"},
		"argoproj/rollouts-demo:bad-red":                   {[]string{"COLOR=red", "ERROR_RATE=15"}, "/programs/rollouts-demo"},
		"argoproj/rollouts-demo:slow-green@sha256:abcdef":  {[]string{"COLOR=green", "LATENCY=2"}, "/programs/rollouts-demo"},
		"quay.io/argoproj/argo-rollouts:v1.10.1":           {[]string{"HOME=/home/argo-rollouts"}, "/programs/rollouts-controller"},
		"quay.io/argoproj/argo-rollouts@sha256:012345":     {[]string{"HOME=/home/argo-rollouts"}, "/programs/rollouts-controller"},
		"ghcr.io/kedify/argo-rollouts-plugin:dev":          {nil, "/programs/rollouts-plugin-kedify"},
		"ghcr.io/kedify/argo-rollouts-interceptor:dev":     {nil, "/programs/interceptor"},
		"ghcr.io/kedify/argo-rollouts-step-plugin:v1.2.3":  {nil, "/programs/rollouts-plugin-step"},
		"registry.example.com/argo-rollouts:v1.10.1-steps": {[]string{"HOME=/home/argo-rollouts"}, "/programs/rollouts-controller"},
		"curlimages/curl:8.16.0":                           {nil, "/programs/curl"},
		"busybox:1.37":                                     {nil, "/programs/echo"},
		"docker.io/envoyproxy/envoy:v1.40.0":               {nil, self},
		"docker.io/envoyproxy/gateway:v1.9.1":              {nil, "/programs/envoy-gateway"},
		"ghcr.io/projectcontour/contour:v1.33.8":           {nil, "/programs/contour"},
		"ghcr.io/kedacore/keda:2.21.0":                     {nil, "/programs/operator"},
		"ghcr.io/kedacore/keda-metrics-apiserver:main":     {nil, "/programs/adapter"},
		"ghcr.io/kedacore/keda-admission-webhooks:main":    {nil, "/programs/webhooks"},
		"registry.k8s.io/etcd:sandbox":                     {nil, "/programs/kubernetes"},
		"registry.k8s.io/kube-apiserver:sandbox":           {nil, "/programs/kubernetes"},
		"registry.k8s.io/kube-controller-manager:sandbox":  {nil, "/programs/kubernetes"},
		"sandbox/region:dev":                               {nil, "/programs/region"},
		"sandbox/protocols:blue":                           {[]string{"COLOR=blue"}, "/programs/protocols"},
	} {
		got, err := table.Resolve(ref)
		if err != nil {
			t.Error(err)
			continue
		}
		if p := got.Files[got.Entrypoint[0]]; p != want.program {
			t.Errorf("%s: program %q, want %q", ref, p, want.program)
		}
		if diff := cmp.Diff(want.env, slices.Clip(got.Env)); diff != "" && len(want.env)+len(got.Env) > 0 && want.program != self {
			t.Errorf("%s: variables (-want +got):\n%s", ref, diff)
		}
	}
	for _, ref := range []string{"ghcr.io/kedify/argo-rollouts-plugin:dev", "ghcr.io/kedify/argo-rollouts-step-plugin:dev"} {
		if plugin, _ := table.Resolve(ref); plugin.Files["/bin/cp"] != "/programs/cp" {
			t.Errorf("image %s has no cp for an init container: %v", ref, plugin.Files)
		}
	}
	for _, ref := range []string{
		"argoproj/rollouts-demo:bleu", "argoproj/rollouts-demo", "nginx", "quay.io/argoproj/rollouts-demo:blue",
		"argoproj/rollouts-demo:slow-bad-red", "registry.example/argoproj/rollouts-demo:latest",
		"quay.io/argoproj/argo-rollouts/kubectl:v1.10.1", "quay.io/argoproj/kubectl-argo-rollouts:v1.10.1",
	} {
		_, err := table.Resolve(ref)
		if !image.IsUnknown(err) {
			t.Errorf("%s: %v, want an unknown image", ref, err)
			continue
		}
		for _, want := range []string{ref, "argoproj/rollouts-demo:slow-{blue|green", "quay.io/argoproj/argo-rollouts:*"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("error %q does not name %q", err, want)
			}
		}
	}
}
