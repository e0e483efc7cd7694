package addons

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

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
		path := filepath.Join(a.Upstream.Dir, "go.mod")
		content, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
			continue
		}
		if !regexp.MustCompile(regexp.QuoteMeta(a.Upstream.Upstream+" "+a.Version) + `(?m:$| //)`).Match(content) {
			t.Errorf("%s does not require %s %s", path, a.Upstream.Upstream, a.Version)
		}
	}
	if versioned == 0 {
		t.Error("no add-on has a version")
	}
}

// What an add-on names among its files is there, and each reference to one of its images
// gets that image: no two add-ons bring one image.
func TestImages(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var (
		table   image.Table
		entries []image.Entry
	)
	for _, a := range All() {
		var names []string
		if a.Upstream != nil {
			for _, pkg := range a.Upstream.Packages {
				names = append(names, path.Base(pkg))
			}
		}
		names = slices.Concat(names, slices.Collect(maps.Keys(a.Files)), a.StandIns)
		paths := make(addon.Paths)
		given := make(addon.Paths)
		for _, p := range a.Programs {
			names = append(names, p.Name)
			given[p.Name] = self // an ELF file, as Envoy is
		}
		for _, name := range names {
			paths[name] = filepath.Join("/programs", a.Name, name)
		}
		if a.Prepare != nil {
			prepared, err := a.Prepare(t.Context(), addon.Host{Dir: "/programs", Kubernetes: "/programs/kubernetes", Programs: given})
			if err != nil {
				t.Fatalf("add-on %s: %v", a.Name, err)
			}
			maps.Copy(paths, prepared.Paths)
			entries = append(entries, prepared.Images...)
		}
		own, err := a.ImagesFrom(paths)
		if err != nil {
			t.Fatalf("add-on %s: %v", a.Name, err)
		}
		entries = append(entries, own...)
		for _, name := range append(slices.Collect(maps.Values(a.Releases)), a.Commands...) {
			if paths[name] == "" {
				t.Errorf("add-on %s has no %s for PATH or the releases server", a.Name, name)
			}
		}
	}
	for _, e := range entries {
		if err := table.Add(e); err != nil {
			t.Error(err)
		}
	}
	for _, e := range entries {
		tag := strings.Replace(e.Tag, "*", append(e.Values, "v1.2.3")[0], 1)
		got, err := table.Resolve(e.Repository + ":" + tag)
		if err != nil {
			t.Error(err)
			continue
		}
		for inside, file := range e.Image.Files {
			if got.Files[inside] != file {
				t.Errorf("%s:%s: %s is %s, not its own %s", e.Repository, tag, inside, got.Files[inside], file)
			}
		}
	}
}
