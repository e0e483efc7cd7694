package envoy

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoytest"
)

// Check accepts what Envoy accepts, and nothing else, of all that an HTTPScaledObject can
// say and that is not refused earlier.
func TestCheckAgreesWithARealEnvoy(t *testing.T) {
	path := envoytest.Path(t)
	label := strings.Repeat("a", 63)
	responseHeader := func(timeout string) func(*httpv1alpha1.HTTPScaledObjectSpec) {
		return func(s *httpv1alpha1.HTTPScaledObjectSpec) {
			s.Timeouts = &httpv1alpha1.Timeouts{ResponseHeader: &timeout}
		}
	}
	for name, tt := range map[string]struct {
		change func(*httpv1alpha1.HTTPScaledObjectSpec)
		split  string
		wrong  string // field
	}{
		"shortest timeout": {change: responseHeader("1ns")},
		"longest timeout":  {change: responseHeader("2562047h47m15s")},
		"too long by 1 s":  {change: responseHeader("2562047h47m16s"), wrong: "spec.timeouts.responseHeader"},
		"hosts": {change: func(s *httpv1alpha1.HTTPScaledObjectSpec) {
			s.Hosts = []string{
				"*", "*.com", "x", "1", "_a.example.com", "xn--bcher-kva.example", "UPPER.example.com", "dot.example.com.", "port.example.com:8080",
				"[2001:db8::1]", "::1", "192.0.2.1", label + "." + label + "." + label + "." + strings.Repeat("a", 61), "*." + label + ".org",
			}
		}},
		"paths": {change: func(s *httpv1alpha1.HTTPScaledObjectSpec) {
			s.PathPrefixes = []string{"/", "/a", "b", "/a//b", "//", "/%2F", "/;:@&=+$,!~'()_-.", "/\"<>[]\\^`{|}", "/" + strings.Repeat("x", 2047)}
		}},
		"headers": {change: func(s *httpv1alpha1.HTTPScaledObjectSpec) {
			s.Headers = []httpv1alpha1.Header{
				{Name: "!#$%&'*+-.^_`|~09azAZ"}, {Name: "x-value", Value: "ü\t\"\\ %REQ(x)% 世"},
				{Name: strings.Repeat("n", 10000), Value: strings.Repeat("v", 10000)},
			}
		}},
		"weights":           {split: "[{service: app, weight: 2147483646}, {service: other, weight: 1}]"},
		"a weight of 0":     {split: "[{service: app, weight: 0}, {service: other, weight: 1}]"},
		"a Service nowhere": {change: func(s *httpv1alpha1.HTTPScaledObjectSpec) { s.ScaleTargetRef.Service = " \n/ü\"" }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.service("app", 0, refusing(t))
			w.service("other", 0, refusing(t))
			w.object("app", "app", tt.split, func(o *httpv1alpha1.HTTPScaledObject) {
				if tt.change != nil {
					tt.change(&o.Spec)
				}
			})
			table, _ := w.builder.Commit()
			if table.Len() != 1 {
				t.Fatalf("there is no route: %v", table.Problems())
			}
			tr := newTranslator(t, Options{})
			var err error
			for route := range table.Routes() {
				err = tr.Check(route)
			}
			var invalid *InvalidError
			if errors.As(err, &invalid) != (tt.wrong != "") || err != nil && invalid.Field != tt.wrong {
				t.Errorf("Check: %v; expected a fault of field %q", err, tt.wrong)
			}
			config, marshalErr := protojson.Marshal(static(t, tr, table, nil))
			file := filepath.Join(t.TempDir(), "envoy.json")
			if err := errors.Join(marshalErr, os.WriteFile(file, config, 0o600)); err != nil {
				t.Fatal(err)
			}
			out, refused := exec.Command(path, "--mode", "validate", "--log-level", "warn", "-c", file).CombinedOutput()
			if (refused != nil) != (err != nil) {
				t.Errorf("Check: %v; Envoy: %v\n%s", err, refused, out)
			}
		})
	}
}
