package docs_test

import (
	"encoding/xml"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/docstest"
	"github.com/kedify/argo-rollouts-plugin/internal/kubectlcanary/check"
	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/registration"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)|(?:href|src)="([^"]+)"|(?m)^\[[^\]]+\]: (\S+)$`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	anchor  = regexp.MustCompile(`<a id="([^"]*)"></a>`)
	inline  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// Every link to a file, and to a heading or an anchor in one, leads somewhere, and every page
// of docs/ is in the table of docs/README.md.
func TestLinks(t *testing.T) {
	root := docstest.Root(t)
	for _, problem := range linkProblems(t, root) {
		t.Error(problem)
	}
}

// Pages in new directories are looked at.
func TestLinkProblems(t *testing.T) {
	root := t.TempDir()
	for file, text := range map[string]string{
		"README.md":      "[docs](docs/README.md)",
		"docs/README.md": "# A `b` [c](new/deep/page.md#no-1)\n[same](#a-b-c) [dir](new) [web](https://example.com/#no)\n```text\n# No heading\n[no](link)\n```\n",
		"docs/new/deep/page.md": "# No\n## No\n<a id=\"check\"></a>\n[a](../../README.md#no-heading) [b](gone.md)\n[c](#chekc) [d](#check) <img src=\"gone.svg\">\n" +
			"[e][e]\n\n[e]: gone/\n",
		"docs/new/lost.md": "",
	} {
		file = filepath.Join(root, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"docs/new/deep/page.md links to ../../README.md#no-heading: there is no such heading or anchor",
		"docs/new/deep/page.md links to gone.md: there is no such file",
		"docs/new/deep/page.md links to #chekc: there is no such heading or anchor",
		"docs/new/deep/page.md links to gone.svg: there is no such file",
		"docs/new/deep/page.md links to gone/: there is no such file",
		"docs/README.md has no link to docs/new/lost.md",
	}
	if diff := cmp.Diff(want, linkProblems(t, root)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// linkProblems lists links of the pages below a directory that lead nowhere, and pages of docs/
// to which docs/README.md has no link.
func linkProblems(t *testing.T, root string) []string {
	t.Helper()
	read := func(page string) string {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	known := map[string][]string{}
	anchorsOf := func(page string) []string {
		if known[page] == nil {
			known[page] = append(anchors(read(page)), "")
		}
		return known[page]
	}
	var problems []string
	const index = "docs/README.md"
	listed := map[string]bool{index: true}
	pages := docstest.Pages(t, root)
	for _, page := range pages {
		for _, match := range link.FindAllStringSubmatch(docstest.WithoutFences(read(page)), -1) {
			address := match[1] + match[2] + match[3]
			target, id, _ := strings.Cut(address, "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := page
			if target != "" {
				file = path.Join(path.Dir(page), target)
			}
			if page == index {
				listed[file] = true
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); err != nil {
				problems = append(problems, page+" links to "+address+": there is no such file")
			} else if id != "" && !slices.Contains(anchorsOf(file), id) {
				problems = append(problems, page+" links to "+address+": there is no such heading or anchor")
			}
		}
	}
	for _, page := range pages {
		if strings.HasPrefix(page, "docs/") && !listed[page] {
			problems = append(problems, index+" has no link to "+page)
		}
	}
	return problems
}

// anchors returns those that GitHub gives to the headings of a page, and those that the page has
// itself.
func anchors(text string) []string {
	text = docstest.WithoutFences(text)
	var found []string
	for _, match := range heading.FindAllStringSubmatch(text, -1) {
		name := strings.Map(func(r rune) rune {
			switch {
			case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
				return unicode.ToLower(r)
			case r == ' ':
				return '-'
			default:
				return -1
			}
		}, inline.ReplaceAllString(match[1], "$1"))
		unique := name
		for n := 1; slices.Contains(found, unique); n++ {
			unique = fmt.Sprintf("%s-%d", name, n)
		}
		found = append(found, unique)
	}
	for _, match := range anchor.FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	return found
}

// The README's picture, which make picture draws, is small enough to load at once.
func TestPicture(t *testing.T) {
	picture := docstest.Read(t, "docs/canary.svg")
	if err := xml.Unmarshal([]byte(picture), new(struct{})); err != nil || len(picture) > 60<<10 {
		t.Errorf("%d bytes, want 60 KB at most; %v", len(picture), err)
	}
}

// Messages, comments, manifests and scripts that name a page of docs/, as a path or as a URL of
// the repository, name one that there is.
func TestFilesNamePagesThatThereAre(t *testing.T) {
	root, found := docstest.Root(t), 0
	madeUp := []string{"docs/docs_test.go", "sandbox/internal/page/page_test.go"}
	named := regexp.MustCompile(`docs/([\w.-]+/)*[\w-]+\.md(#[\w-]+)?`)
	for _, file := range docstest.Files(t, root, "", ".go", ".yaml", ".yml", ".sh", ".json", ".Dockerfile") {
		text := docstest.Read(t, file)
		// With a 0 in it, it is a program that make build has put there.
		if slices.Contains(madeUp, file) || strings.Contains(text, "\x00") {
			continue
		}
		for line := range strings.Lines(text) {
			for _, at := range named.FindAllStringIndex(line, -1) {
				if before := line[:at[0]]; strings.Contains(before, "://") && !strings.Contains(before, "/kedify/argo-rollouts-plugin/") {
					continue // a page of another project
				}
				found++
				page, id, _ := strings.Cut(line[at[0]:at[1]], "#")
				if text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page))); err != nil {
					t.Errorf("%s names %s, which does not exist", file, page)
				} else if id != "" && !slices.Contains(anchors(string(text)), id) {
					t.Errorf("%s names %s#%s, which does not exist", file, page, id)
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d pages are named", found)
	}
}

// Tests and demos find a fence by its name.
func TestFencesHaveNamesOfTheirOwn(t *testing.T) {
	names := 0
	for _, page := range docstest.Pages(t, docstest.Root(t)) {
		seen := map[string]bool{}
		for _, f := range docstest.Fences(docstest.Read(t, page)) {
			if f.Name == "" {
				continue
			}
			names++
			if seen[f.Name] || !regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`).MatchString(f.Name) {
				t.Errorf("%s: {%s}: want a kebab-case name of its own", page, f.Name)
			}
			seen[f.Name] = true
		}
	}
	if names == 0 {
		t.Error("no fence has a name")
	}
}

// YAML in the docs reads. A fence that says yaml holds whole manifests, which the
// end-to-end tests apply; one that says yaml {fragment} does not.
func TestYAML(t *testing.T) {
	manifests, fragments := 0, 0
	for _, page := range docstest.Pages(t, docstest.Root(t)) {
		t.Run(page, func(t *testing.T) {
			for _, f := range docstest.Fences(docstest.Read(t, page)) {
				switch {
				case f.Language == "yaml" && !f.Fragment:
					for _, document := range strings.Split(f.Text, "---\n") {
						manifests++
						if object := decode(t, document); object["apiVersion"] == nil || object["kind"] == nil {
							t.Errorf("no apiVersion or kind (is it a {fragment}?) in:\n%s", document)
						}
					}
				case f.Language == "yaml":
					fragments++
					var value any
					if err := yaml.UnmarshalStrict([]byte(f.Text), &value); err != nil {
						t.Errorf("%v in:\n%s", err, f.Text)
					}
				case f.Fragment:
					t.Errorf("{fragment} is for yaml: %s", f.Language)
				case f.Language == "go":
					if !isInSources(t, f.Text) {
						t.Errorf("no Go file of the repository holds this any more:\n%s", f.Text)
					}
				case !slices.Contains([]string{"sh", "text", "dockerfile"}, f.Language):
					t.Errorf("a fence says %q: want yaml, go, dockerfile, sh or text", f.Language)
				}
			}
		})
	}
	if manifests == 0 || fragments == 0 {
		t.Errorf("%d manifests and %d fragments found", manifests, fragments)
	}
}

// isInSources says whether a Go file of the repository holds a text, word for word.
func isInSources(t *testing.T, text string) bool {
	t.Helper()
	var found bool
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case found:
			return fs.SkipAll
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "bin" || entry.Name() == "dist"):
			return fs.SkipDir
		case strings.HasSuffix(path, ".go"):
			source, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			found = strings.Contains(string(source), text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func decode(t *testing.T, document string) map[string]any {
	t.Helper()
	var object map[string]any
	if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
		t.Fatalf("%v in:\n%s", err, document)
	}
	return object
}

// Troubleshooting has an anchor for each check, to which `kubectl canary check` links, before
// the heading of a section.
func TestTroubleshootingHasASectionForEachCheck(t *testing.T) {
	var checks, has []string
	for _, match := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllStringSubmatch(check.Reference(), -1) {
		checks = append(checks, match[1])
	}
	lines := strings.Split(docstest.WithoutFences(docstest.Read(t, "docs/how-to/troubleshooting.md")), "\n")
	for i, line := range lines {
		for _, match := range anchor.FindAllStringSubmatch(line, -1) {
			has = append(has, match[1])
			if !strings.HasPrefix(strings.Join(lines[i+1:], ""), "## ") {
				t.Errorf("the anchor %s is not before the heading of a section", match[1])
			}
		}
	}
	slices.Sort(checks)
	slices.Sort(has)
	if diff := cmp.Diff(checks, has); diff != "" || len(checks) < 30 {
		t.Errorf("anchors, one for each check (-checks +page):\n%s", diff)
	}
}

// The reference lists every flag of check.
func TestReferenceListsEveryFlag(t *testing.T) {
	reference := docstest.Read(t, "docs/reference/check.md")
	flag := regexp.MustCompile(`(?m)^ *(?:(-\w), )?(--[a-z-]+)`)
	flags := flag.FindAllStringSubmatch(check.NewCommand("dev").Flags().FlagUsages(), -1)
	if len(flags) == 0 {
		t.Fatal("check has no flags")
	}
	for _, match := range flags {
		text := "`" + match[2] + "`"
		if match[1] != "" {
			text = "`" + match[1] + "`, " + text
		}
		if !strings.Contains(reference, text) {
			t.Errorf("%s is not in the reference", text)
		}
	}
}

// The generated tables have the flags that the plugins take, and no other: the generator reads
// them from the sources. Those of cmd/rollouts-plugin-gatewayapi come on top.
func TestReferenceListsTheFlagsOfPlugins(t *testing.T) {
	step := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(registration.Args).AddTo(step)
	router := rolloutsplugin.TrafficRouter{}.Command().Flags()
	for page, of := range map[string]struct {
		flags *pflag.FlagSet
		also  []string
	}{
		"kedify":     {router, nil},
		"gatewayapi": {router, []string{"--name", "--kubeconfig", "--kubeClientQPS", "--kubeClientBurst", "--logformat"}},
		"steps":      {step, nil},
	} {
		made, listed := of.also, []string(nil)
		of.flags.VisitAll(func(f *pflag.Flag) { made = append(made, "--"+f.Name) })
		for _, row := range docstest.Table(t, "docs/reference/"+page+".md", "| flag | default | meaning |") {
			listed = append(listed, docstest.Quoted(row[0])...)
		}
		slices.Sort(made)
		slices.Sort(listed)
		if diff := cmp.Diff(made, listed); diff != "" {
			t.Errorf("%s (-made +listed):\n%s", page, diff)
		}
	}
}

// Every make target that a page names exists.
func TestMakeTargets(t *testing.T) {
	makefile := docstest.Read(t, "Makefile")
	named := regexp.MustCompile("(?m)(?:^|`)(?:[A-Z]+=\\S+ )?make ((?:[a-z0-9-]+ ?)+)")
	found := 0
	for _, page := range docstest.Pages(t, docstest.Root(t)) {
		text := strings.ReplaceAll(docstest.WithoutFences(docstest.Read(t, page)), "\n", " ")
		for _, f := range docstest.Fences(docstest.Read(t, page)) {
			text += "\n" + f.Text
		}
		for _, match := range named.FindAllStringSubmatch(text, -1) {
			for _, target := range strings.Fields(match[1]) {
				found++
				if !strings.Contains(makefile, "\n"+target+":") {
					t.Errorf("%s: make %s: there is no such target", page, target)
				}
			}
		}
	}
	if found == 0 {
		t.Error("no target found")
	}
}

// Every direct dependency of both modules has its reason in decisions.md.
func TestDependenciesHaveReasons(t *testing.T) {
	decisions := docstest.Read(t, "docs/contributing/decisions.md")
	for _, module := range []struct{ file, section string }{
		{"go.mod", "## Dependencies of the plugin"},
		{"sandbox/go.mod", "## Dependencies of the sandbox"},
	} {
		_, section, found := strings.Cut(decisions, module.section)
		if !found {
			t.Fatalf("no section %q", module.section)
		}
		section, _, _ = strings.Cut(section, "\n## ")
		requirement := regexp.MustCompile(`(?m)^(?:require )?\t?(\S+) v\S+$`)
		direct := requirement.FindAllStringSubmatch(docstest.Read(t, module.file), -1)
		if len(direct) == 0 {
			t.Fatalf("%s requires nothing", module.file)
		}
		for _, match := range direct {
			if !strings.Contains(section, "`"+match[1]+"`") {
				t.Errorf("%s requires %s, for which %q gives no reason", module.file, match[1], module.section)
			}
		}
	}
}
