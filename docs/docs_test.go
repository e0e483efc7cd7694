package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/kubectlcanary/check"
)

var (
	fence   = regexp.MustCompile("(?ms)^ *```([^\n]*)\n(.*?)^ *```$")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
)

// pages returns all Markdown files that users read.
func pages(t *testing.T) []string {
	t.Helper()
	var pages []string
	for _, pattern := range []string{"../README.md", "*.md", "../examples/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("no pages match %s: %v", pattern, err)
		}
		pages = append(pages, found...)
	}
	return pages
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Every link to a file, and to a heading in one, leads somewhere.
func TestLinks(t *testing.T) {
	for _, page := range pages(t) {
		t.Run(filepath.ToSlash(page), func(t *testing.T) {
			for _, match := range link.FindAllStringSubmatch(fence.ReplaceAllString(readText(t, page), ""), -1) {
				target, anchor, _ := strings.Cut(match[1], "#")
				if strings.Contains(target, "://") {
					continue
				}
				file := page
				if target != "" {
					file = filepath.Join(filepath.Dir(page), filepath.FromSlash(target))
				}
				if _, err := os.Stat(file); err != nil {
					t.Errorf("link to %s: %v", match[1], err)
					continue
				}
				if anchor != "" && !slices.Contains(anchors(readText(t, file)), anchor) {
					t.Errorf("link to %s: %s has no such heading; it has %q", match[1], file, anchors(readText(t, file)))
				}
			}
		})
	}
}

// anchors returns the anchors that GitHub gives to the headings of a page.
func anchors(text string) []string {
	var anchors []string
	for _, match := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		anchors = append(anchors, strings.Map(func(r rune) rune {
			switch {
			case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
				return unicode.ToLower(r)
			case r == ' ':
				return '-'
			default:
				return -1
			}
		}, match[1]))
	}
	return anchors
}

// YAML in the docs reads. A fence that says just yaml holds whole manifests,
// which the end-to-end tests apply; one that says yaml {fragment} does not.
func TestYAML(t *testing.T) {
	manifests, fragments := 0, 0
	for _, page := range pages(t) {
		t.Run(filepath.ToSlash(page), func(t *testing.T) {
			for _, match := range fence.FindAllStringSubmatch(readText(t, page), -1) {
				info, text := strings.TrimSpace(match[1]), match[2]
				switch {
				case info == "yaml":
					for _, document := range strings.Split(text, "---\n") {
						manifests++
						var object map[string]any
						if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
							t.Errorf("%v in:\n%s", err, document)
						} else if object["apiVersion"] == nil || object["kind"] == nil {
							t.Errorf("no apiVersion or kind (is it a {fragment}?) in:\n%s", document)
						}
					}
				case info == "yaml {fragment}":
					fragments++
					var value any
					if err := yaml.UnmarshalStrict([]byte(text), &value); err != nil {
						t.Errorf("%v in:\n%s", err, text)
					}
				case info == "go":
					if !isInSources(t, text) {
						t.Errorf("no Go file of the repository holds this any more:\n%s", text)
					}
				case !slices.Contains([]string{"sh", "text", "dockerfile"}, info):
					t.Errorf("a fence says %q: want yaml, yaml {fragment}, go, dockerfile, sh or text", info)
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
			found = strings.Contains(readText(t, path), text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// The reference has the table of the checks as they are declared.
func TestReferenceListsEveryCheck(t *testing.T) {
	if table := check.Reference(); !strings.Contains(readText(t, "reference.md"), "\n\n"+table+"\n") {
		t.Errorf("run make generate: reference.md does not hold\n%s", table)
	}
}

// The checks that troubleshooting.md names exist.
func TestTroubleshootingNamesChecks(t *testing.T) {
	reference := readText(t, "reference.md")
	for _, brackets := range regexp.MustCompile("\\[`[^]]+`\\](?:[^(]|$)").FindAllString(readText(t, "troubleshooting.md"), -1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(brackets, -1) {
			if !strings.Contains(reference, "\n| `"+name[1]+"` |") {
				t.Errorf("%q is no check of the reference", name[1])
			}
		}
	}
}

// The reference lists every flag of check.
func TestReferenceListsEveryFlag(t *testing.T) {
	reference := readText(t, "reference.md")
	flag := regexp.MustCompile(`(?m)^ *(?:(-\w), )?(--[a-z-]+)`)
	flags := flag.FindAllStringSubmatch(check.NewCommand().Flags().FlagUsages(), -1)
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

// interceptorSources are the sources of the interceptor, tests left out.
func interceptorSources(t *testing.T, folders ...string) string {
	t.Helper()
	var text strings.Builder
	for _, folder := range folders {
		files, err := filepath.Glob("../" + folder + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("no sources in %s: %v", folder, err)
		}
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				text.WriteString(readText(t, file))
			}
		}
	}
	return text.String()
}

// The interceptor's reference lists every reason of an Event, and no other.
func TestReasonsOfEvents(t *testing.T) {
	sources := interceptorSources(t, "internal/interceptor/proxy", "internal/interceptor/watch", "internal/interceptor/events", "internal/interceptor/xds", "internal/interceptor/routes")
	names := func(text, pattern string) []string {
		var found []string
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			found = append(found, match[1])
		}
		slices.Sort(found)
		return slices.Compact(found)
	}
	made := names(sources, `(?m)^\t?(?:const )?(\w+) +(?:routes\.)?Reason = "`)
	listed := names(readText(t, "interceptor.md"), "`((?:Internal|Invalid|Unknown|Unsupported|Unreadable|TooLarge|Repeated|Shadowed|RefusedBy|HostNot|HostDis|OverBudget|OverRequest)\\w*)`")
	if diff := cmp.Diff(made, listed); diff != "" || len(made) < 5 {
		t.Errorf("reasons (-made +listed):\n%s", diff)
	}
}

// Every make target that a page names exists.
func TestMakeTargets(t *testing.T) {
	makefile := readText(t, "../Makefile")
	named := regexp.MustCompile("(?m)(?:^ *|`)(?:[A-Z]+=\\S+ )?make ((?:[a-z0-9-]+ ?)+)")
	found := 0
	for _, page := range pages(t) {
		for _, match := range named.FindAllStringSubmatch(readText(t, page), -1) {
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
	decisions := readText(t, "decisions.md")
	for _, module := range []struct{ file, section string }{
		{"../go.mod", "## Dependencies of the plugin"},
		{"../sandbox/go.mod", "## Dependencies of the sandbox"},
	} {
		_, section, found := strings.Cut(decisions, module.section)
		if !found {
			t.Fatalf("no section %q", module.section)
		}
		section, _, _ = strings.Cut(section, "\n## ")
		requirement := regexp.MustCompile(`(?m)^(?:require )?\t?(\S+) v\S+$`)
		direct := requirement.FindAllStringSubmatch(readText(t, module.file), -1)
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
