package routes

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

var update = flag.Bool("update", false, "write testdata/*.out.yaml as they come out")

// TestGolden runs testdata/*.in.yaml. Each is a list of Kubernetes objects as
// kubectl takes them, and of two kinds of our own:
//
//	kind: Delete
//	what: Service demo/canary        # kind namespace/name
//	---
//	kind: Commit                     # one at the end may be left out
//	say: what has happened so far
//	requests:                        # answered in the .out.yaml
//	- app.example.com/path           # host and request target
//	- "app.example.com/ X-Canary: yes; X-Other: 1"
//
// The result of each Commit is in .out.yaml; go test -update writes it.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no testdata: %v", err)
	}
	for _, in := range files {
		out := strings.TrimSuffix(in, ".in.yaml") + ".out.yaml"
		t.Run(strings.TrimSuffix(filepath.Base(in), ".in.yaml"), func(t *testing.T) {
			text, err := os.ReadFile(in)
			if err != nil {
				t.Fatal(err)
			}
			got, err := yaml.Marshal(runGolden(t, string(text)))
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(out, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(out)
			if err != nil {
				t.Fatalf("%v (go test -update writes it)", err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", out, diff)
			}
		})
	}
}

type goldenCommit struct {
	Say          string                 `json:"say,omitempty"`
	Changes      []string               `json:"changes,omitempty"`
	Problems     map[string][]string    `json:"problems,omitempty"`
	Routes       map[string]goldenRoute `json:"routes,omitempty"`
	VirtualHosts map[string][]string    `json:"virtualHosts,omitempty"`
	Answers      map[string]string      `json:"answers,omitempty"`
}

type goldenRoute struct {
	Split          bool     `json:"split,omitempty"`
	Rollout        string   `json:"rollout,omitempty"`
	Cold           bool     `json:"cold,omitempty"`
	Backends       []string `json:"backends"`
	Failover       string   `json:"failover,omitempty"`
	ConditionWait  string   `json:"conditionWait,omitempty"`
	ResponseHeader string   `json:"responseHeader,omitempty"`
}

func runGolden(t *testing.T, text string) []goldenCommit {
	t.Helper()
	b := NewBuilder()
	var commits []goldenCommit
	pending := false
	for _, document := range strings.Split("\n"+text, "\n---\n") {
		var head struct {
			Kind     string   `json:"kind"`
			What     string   `json:"what"`
			Say      string   `json:"say"`
			Requests []string `json:"requests"`
		}
		if err := yaml.Unmarshal([]byte(document), &head); err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		pending = head.Kind != "Commit"
		switch head.Kind {
		case "HTTPScaledObject":
			b.SetHTTPScaledObject(decode[httpv1alpha1.HTTPScaledObject](t, document))
		case "Service":
			b.SetService(decode[corev1.Service](t, document))
		case "EndpointSlice":
			b.SetEndpointSlice(decode[discoveryv1.EndpointSlice](t, document))
		case "Delete":
			if err := goldenDelete(b, head.What); err != nil {
				t.Fatal(err)
			}
		case "Commit":
			commits = append(commits, goldenOf(t, b, head.Say, head.Requests))
		default:
			t.Fatalf("kind %q in:\n%s", head.Kind, document)
		}
	}
	if pending {
		commits = append(commits, goldenOf(t, b, "", nil))
	}
	return commits
}

func decode[T any](t *testing.T, document string) *T {
	t.Helper()
	var object T
	if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
		t.Fatalf("%v in:\n%s", err, document)
	}
	return &object
}

func goldenDelete(b *Builder, what string) error {
	kind, key, _ := strings.Cut(what, " ")
	namespace, name, found := strings.Cut(key, "/")
	if !found {
		return errors.New("expected kind namespace/name, found " + what)
	}
	object := types.NamespacedName{Namespace: namespace, Name: name}
	switch kind {
	case "HTTPScaledObject":
		b.DeleteHTTPScaledObject(object)
	case "Service":
		b.DeleteService(object)
	case "EndpointSlice":
		b.DeleteEndpointSlice(object)
	default:
		return errors.New("no kind that can be deleted: " + what)
	}
	return nil
}

func goldenOf(t *testing.T, b *Builder, say string, requests []string) goldenCommit {
	t.Helper()
	table, changes := b.Commit()
	c := goldenCommit{
		Say: say, Changes: describeChanges(changes, table),
		Problems: map[string][]string{}, Routes: map[string]goldenRoute{}, VirtualHosts: map[string][]string{}, Answers: map[string]string{},
	}
	for _, p := range table.Problems() {
		c.Problems[p.Object.String()] = append(c.Problems[p.Object.String()], fmt.Sprintf("%s %s", p.Reason, p.Message))
	}
	for r := range table.Routes() {
		g := goldenRoute{Split: r.Split, Rollout: r.Rollout, Cold: r.Cold()}
		for _, backend := range r.Backends {
			g.Backends = append(g.Backends, fmt.Sprintf("%s weight %d share %d %s", backend.Cluster, backend.Weight, backend.Share, describeEndpoints(backend.Endpoints)))
		}
		if f := r.Failover; f != nil {
			g.Failover = fmt.Sprintf("%s after %v %s", f.Service, f.After, describeEndpoints(f.Endpoints))
		}
		if r.ConditionWait != nil {
			g.ConditionWait = r.ConditionWait.String()
		}
		if r.ResponseHeader != nil {
			g.ResponseHeader = r.ResponseHeader.String()
		}
		c.Routes[r.Name.String()] = g
	}
	for vh := range table.VirtualHosts(nil) {
		for _, m := range vh.Matches {
			var headers strings.Builder
			for i, h := range m.Headers {
				headers.WriteString([]string{" ", " or "}[min(i, 1)] + h.Name)
				if h.Value != "" {
					headers.WriteString("=" + h.Value)
				}
			}
			c.VirtualHosts[vh.Domain] = append(c.VirtualHosts[vh.Domain], fmt.Sprintf("%s%s -> %s", m.PathPrefix, &headers, m.Route.Name))
		}
	}
	for _, request := range requests {
		c.Answers[request] = answer(t, table, request)
	}
	return c
}

func describeEndpoints(e Endpoints) string {
	var text strings.Builder
	text.WriteString(e.Protocol.String())
	describe := func(what string, addresses []netip.AddrPort) {
		for i, address := range addresses {
			if i == 0 {
				text.WriteString(" " + what)
			}
			text.WriteString(" " + address.String())
		}
	}
	describe("ready", e.Ready)
	describe("draining", e.Draining)
	return text.String()
}

func describeChanges(changes Changes, table *Table) []string {
	var lines []string
	for _, c := range changes.Routes {
		lines = append(lines, fmt.Sprintf("route %s %s%s", c.Name, describeChange(c.Before == nil, c.After == nil), map[bool]string{true: ", rerouted"}[c.Rerouted()]))
	}
	for _, c := range changes.Clusters {
		lines = append(lines, "cluster "+c.Name+" "+describeChange(c.Before == nil, c.After == nil))
	}
	for _, domain := range changes.VirtualHosts(table) {
		lines = append(lines, "virtual host "+domain)
	}
	for _, p := range changes.Opened {
		lines = append(lines, fmt.Sprintf("problem of %s: %s", p.Object, p.Reason))
	}
	for _, p := range changes.Resolved {
		lines = append(lines, fmt.Sprintf("problem of %s resolved: %s", p.Object, p.Reason))
	}
	return lines
}

func describeChange(isNew, isGone bool) string {
	switch {
	case isNew:
		return "new"
	case isGone:
		return "gone"
	}
	return "changed"
}

// answer returns the name of the object that a request goes to. The request is
// "host/target" and, after a blank, headers separated by semicolons.
func answer(t *testing.T, table *Table, request string) string {
	t.Helper()
	url, headers, _ := strings.Cut(request, " ")
	slash := strings.IndexByte(url, '/')
	if slash < 0 {
		t.Fatalf("request %q has no path", request)
	}
	header := http.Header{}
	for line := range strings.SplitSeq(headers, ";") {
		if name, value, found := strings.Cut(line, ":"); found {
			header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
		}
	}
	return nameOf(table.Lookup(url[:slash], PathOf(url[slash:]), header))
}
