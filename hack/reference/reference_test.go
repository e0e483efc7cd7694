package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/docstest"
)

// What is committed is what the sources say.
func TestSectionsAreCurrent(t *testing.T) {
	t.Chdir(root)
	for _, s := range sections {
		t.Run(s.name, func(t *testing.T) {
			made, err := s.make()
			if err != nil {
				t.Fatal(err)
			}
			page, err := os.ReadFile(s.page)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(page), generated(s.name, made)) {
				t.Errorf("%s is not as it is made: run make generate", s.page)
			}
		})
	}
}

// Each Role of deploy/ is in a section.
func TestEachRoleIsListed(t *testing.T) {
	t.Chdir(root)
	page, err := os.ReadFile("docs/reference/permissions.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("deploy/*/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nrules:\n") && strings.Contains(string(text), "Role\n") && !strings.Contains(string(page), "(../../"+file+")") {
			t.Errorf("%s is in no section", file)
		}
	}
}

// Sources that leave something to be said are refused.
func TestWhatIsNotSaidIsRefused(t *testing.T) {
	const reason = "// lost says on a Pod that it is lost.\nlost = \"Lost\"\n"
	type maker func(folder string) (string, error)
	ofEvents := func(folder string) (string, error) { return events(folder)() }
	ofMetrics := func(folder string) (string, error) { return metrics(folder)() }
	ofFlags := func(folder string) (string, error) { return flags("add", folder)() }
	ofPermissions := func(folder string) (string, error) { return permissions(filepath.Join(folder, "a.go"))() }
	for name, tc := range map[string]struct {
		make maker
		text string
		says string
	}{
		"events":              {ofEvents, "const (\n" + reason + ")", ""},
		"no events":           {ofEvents, "const other = \"Other\"", "nothing to list"},
		"a reason of a group": {ofEvents, "const (\n" + reason + "found = \"Found\"\n)", "found: want the comment"},
		"a typed reason":      {ofEvents, "const found x.Reason = \"Found\"", "found: want the comment"},
		"a metric's help":     {ofMetrics, "var g = prometheus.NewGauge(prometheus.GaugeOpts{Name: \"a\"})", "want both"},
		"no flags":            {ofFlags, "func add() {}", "nothing to list"},
		"a rule":              {ofPermissions, "\nrules:\n  - apiGroups: [\"\"]\n    verbs: [\"get\"]\n", "rule 1"},
		"a verb":              {ofPermissions, "\nrules:\n  # Not here.\n  - apiGroups: [\"\"]\n    verbs:\n      - get\n", "rule 1"},
		"a rule with a reason": {ofPermissions,
			"\nrules:\n  # Here.\n  - apiGroups: [\"\"]\n    verbs: [\"get\"]\n", ""},
		"no rules": {ofPermissions, "\nkind: ServiceAccount\n", "has no rules"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			if !strings.HasPrefix(tc.text, "\n") {
				tc.text = "package a\n" + tc.text
			}
			if err := os.WriteFile(filepath.Join(folder, "a.go"), []byte(tc.text), 0o644); err != nil {
				t.Fatal(err)
			}
			switch _, err := tc.make(folder); {
			case tc.says == "" && err != nil:
				t.Error(err)
			case tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)):
				t.Errorf("%v, want %q", err, tc.says)
			}
		})
	}
}

// Each marker of a page is of a section, and a page without one is refused.
func TestMarkers(t *testing.T) {
	known := map[string]bool{}
	for _, s := range sections {
		known[s.page+" "+s.name] = true
	}
	for _, page := range docstest.Pages(t, docstest.Root(t)) {
		for line := range strings.Lines(docstest.Read(t, page)) {
			name, found := strings.CutPrefix(line, "<!-- generated: ")
			name, _, _ = strings.Cut(name, " -->")
			if found && !known[page+" "+name] {
				t.Errorf("%s: no section is called %q", page, name)
			}
		}
	}
	page := filepath.Join(t.TempDir(), "page.md")
	for _, text := range []string{"", "<!-- generated: a -->\n", "<!-- end -->\n", "<!-- generated: b -->\n<!-- end -->\n"} {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := replace(page, "a", "made"); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}
