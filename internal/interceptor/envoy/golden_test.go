package envoy

import (
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/yaml"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

var update = flag.Bool("update", false, "write testdata/*.out.yaml as they come out")

// TestGolden runs testdata/*.in.yaml. Each is a list of Kubernetes objects as
// kubectl takes them, and at most one object of a kind of this test:
//
//	kind: Options
//	fallback: ["10.96.0.10:8081"]
//	tls: true                        # and others, see goldenOptions
//
// All resources that an Envoy gets are in .out.yaml; go test -update writes it.
// Each resource passes its own validation, and a real Envoy accepts it.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no testdata: %v", err)
	}
	for _, in := range files {
		out := strings.TrimSuffix(in, ".in.yaml") + ".out.yaml"
		t.Run(strings.TrimSuffix(filepath.Base(in), ".in.yaml"), func(t *testing.T) {
			g := readGolden(t, in)
			r := translate(g.translator, g.table, g.fallback)
			got := g.print(t, r)
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
			if again := g.print(t, translate(g.translator, g.table, g.fallback)); string(again) != string(got) {
				t.Error("it comes out differently a second time")
			}
			validateEnvoy(t, asYAML(t, static(t, g.translator, g.table, g.fallback)))
		})
	}
}

type goldenOptions struct {
	Fallback       []netip.AddrPort `json:"fallback"`
	TLS            bool             `json:"tls"`
	Edge           bool             `json:"edge"`
	Address        netip.Addr       `json:"address"`
	ResponseHeader string           `json:"responseHeader"`
	MaxConnections uint32           `json:"maxConnections"`
	// Connections has all settings, or none: then those of the embedded proxy apply.
	Connections struct {
		ConnectTimeout  string `json:"connectTimeout"`
		IdleConnTimeout string `json:"idleConnTimeout"`
		KeepAlive       string `json:"keepAlive"`
		MaxHeaderBytes  int    `json:"maxHeaderBytes"`
		ReadHeader      string `json:"readHeader"`
		Idle            string `json:"idle"`
		MaxStreams      int    `json:"maxStreams"`
	} `json:"connections"`
}

type golden struct {
	translator *Translator
	table      *routes.Table
	fallback   []netip.AddrPort
}

func readGolden(t *testing.T, file string) golden {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b := routes.NewBuilder()
	var said struct {
		Kind string `json:"kind"`
		goldenOptions
	}
	for document := range strings.SplitSeq("\n"+string(text), "\n---\n") {
		var head struct {
			Kind string `json:"kind"`
		}
		if err := yaml.Unmarshal([]byte(document), &head); err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		switch head.Kind {
		case "HTTPScaledObject":
			b.SetHTTPScaledObject(decode(t, document, new(httpv1alpha1.HTTPScaledObject)))
		case "Service":
			b.SetService(decode(t, document, new(corev1.Service)))
		case "EndpointSlice":
			b.SetEndpointSlice(decode(t, document, new(discoveryv1.EndpointSlice)))
		case "Options":
			decode(t, document, &said)
		default:
			t.Fatalf("kind %q in:\n%s", head.Kind, document)
		}
	}
	table, _ := b.Commit()
	c := said.Connections
	return golden{
		translator: newTranslator(t, Options{
			TLS: said.TLS, Edge: said.Edge, Address: said.Address, MaxConnections: said.MaxConnections,
			ResponseHeader: duration(t, said.ResponseHeader),
			Connections: Connections{
				ConnectTimeout: duration(t, c.ConnectTimeout), IdleConnTimeout: duration(t, c.IdleConnTimeout),
				KeepAlive: duration(t, c.KeepAlive), MaxHeaderBytes: c.MaxHeaderBytes,
				ReadHeader: duration(t, c.ReadHeader), Idle: duration(t, c.Idle), MaxStreams: c.MaxStreams,
			},
		}),
		table: table, fallback: said.Fallback,
	}
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func decode[T any](t *testing.T, document string, into *T) *T {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(document), into); err != nil {
		t.Fatalf("%v in:\n%s", err, document)
	}
	return into
}

// print validates all resources, and returns them as YAML.
func (g golden) print(t *testing.T, r resources) []byte {
	t.Helper()
	printed := map[string][]any{}
	add := func(kind string, m validated) {
		if err := m.ValidateAll(); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		var tree any
		if err := yaml.Unmarshal(asYAML(t, m), &tree); err != nil {
			t.Fatal(err)
		}
		printed[kind] = append(printed[kind], tree)
	}
	for _, c := range r.clusters {
		add("clusters", c)
	}
	for _, e := range r.endpoints {
		add("endpoints", e)
	}
	for _, l := range r.listeners {
		add("listeners", l)
	}
	add("routes", r.routes)
	text, err := yaml.Marshal(printed)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

type validated interface {
	proto.Message
	ValidateAll() error
}

func asYAML(t *testing.T, m proto.Message) []byte {
	t.Helper()
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err == nil {
		text, err = yaml.JSONToYAML(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return text
}
