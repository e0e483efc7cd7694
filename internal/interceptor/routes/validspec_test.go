package routes

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// One object can neither fill the table nor drown the problems of others.
func TestLargeObjects(t *testing.T) {
	list := func(n int, format string) []string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(format, i)
		}
		return all
	}
	tests := map[string]struct {
		change   func(*httpv1alpha1.HTTPScaledObjectSpec)
		served   bool
		problems int
		message  string
	}{
		"as many matches as there may be": {
			change: func(s *httpv1alpha1.HTTPScaledObjectSpec) {
				s.Hosts, s.PathPrefixes = list(100, "h%d.example.com"), list(100, "/%d")
			},
			served: true,
		},
		"one too many": {
			change: func(s *httpv1alpha1.HTTPScaledObjectSpec) {
				s.Hosts, s.PathPrefixes = list(73, "h%d.example.com"), list(137, "/%d")
			},
			problems: 1, message: "73 hosts with 137 path prefixes and 0 headers make 10001 matches, above 10000",
		},
		"too many by their headers": {
			change: func(s *httpv1alpha1.HTTPScaledObjectSpec) {
				s.Hosts, s.PathPrefixes = list(100, "h%d.example.com"), list(100, "/%d")
				s.Headers = []httpv1alpha1.Header{{Name: "a"}, {Name: "b"}}
			},
			problems: 1, message: "2 headers make 20000 matches",
		},
		"nothing but bad hosts": {
			change:   func(s *httpv1alpha1.HTTPScaledObjectSpec) { s.Hosts = list(1000, "h %d") },
			problems: mostNamed, message: `spec.hosts[4]: "h 4" is not a host name`,
		},
		"the same host over and over": {
			change:   func(s *httpv1alpha1.HTTPScaledObjectSpec) { s.Hosts = list(1000, "example.com:%d") },
			served:   true,
			problems: mostNamed, message: "spec.hosts[5]: example.com is in the list already",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := benchObject(1, 20)
			o.Annotations = nil
			tt.change(&o.Spec)
			b := NewBuilder()
			b.SetService(benchService(1, "stable"))
			b.SetHTTPScaledObject(o)
			table, _ := b.Commit()
			if served := table.Route(types.NamespacedName{Namespace: o.Namespace, Name: o.Name}) != nil; served != tt.served {
				t.Errorf("served: %t", served)
			}
			problems := table.Problems()
			if len(problems) != tt.problems {
				t.Fatalf("%d problems, want %d: %v", len(problems), tt.problems, problems)
			}
			if n := len(problems); n > 0 && !strings.Contains(problems[n-1].Message, tt.message) {
				t.Errorf("the last problem is %q, want one with %q", problems[n-1].Message, tt.message)
			}
		})
	}
}

// What is told of an object stays short, whatever is in it, and says what is served.
func TestMessagesOfLargeEntriesAreShort(t *testing.T) {
	huge := strings.Repeat("\x01", 1<<20) // four bytes each, quoted
	for what, spec := range map[string]httpv1alpha1.HTTPScaledObjectSpec{
		"host":   {Hosts: []string{huge}},
		"header": {Headers: []httpv1alpha1.Header{{Name: huge}}},
		"port":   {ColdStartTimeoutFailoverRef: &httpv1alpha1.ColdStartTimeoutFailoverRef{Service: huge, PortName: &huge}},
		"wait":   {Timeouts: &httpv1alpha1.Timeouts{ConditionWait: &huge}},
	} {
		o := benchObject(1, 20)
		spec.ScaleTargetRef = o.Spec.ScaleTargetRef
		o.Spec = spec
		b := NewBuilder()
		b.SetHTTPScaledObject(o)
		table, _ := b.Commit()
		for _, p := range table.Problems() {
			if len(p.Message) > 2200 || p.Reason.quarantines() && (len(p.Message) > 1024 || !strings.HasSuffix(p.Message, meanwhileNothing)) {
				t.Errorf("%s: %s in %d bytes: ...%.200s", what, p.Reason, len(p.Message), p.Message[max(0, len(p.Message)-200):])
			}
		}
	}
}
