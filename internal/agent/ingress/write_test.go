package ingress

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent"
)

// One write has the backends and the record of them, and nothing else.
func TestPatch(t *testing.T) {
	const text = `[{"host":"a.test","path":"/","pathType":"Prefix","service":"web","port":{"number":80},"object":"web"}]`
	for name, test := range map[string]struct {
		path        string
		annotations map[string]string
		objects     []httpv1alpha1.HTTPScaledObject
		want        []operation
	}{
		"wire": {"a.test / Prefix web:80", nil, []httpv1alpha1.HTTPScaledObject{object("web", "a.test", "")}, []operation{
			{"test", "/metadata/resourceVersion", "7"},
			{"replace", "/spec/rules/0/http/paths/0/backend/service", backend(toProxy)},
			{"add", "/metadata/annotations", map[string]string{agent.WiredPathsAnnotation: text}},
		}},
		"wire beside annotations": {"a.test / Prefix web:80", map[string]string{"a": "b"}, []httpv1alpha1.HTTPScaledObject{object("web", "a.test", "")}, []operation{
			{"test", "/metadata/resourceVersion", "7"},
			{"replace", "/spec/rules/0/http/paths/0/backend/service", backend(toProxy)},
			{"add", "/metadata/annotations/http.kedify.io~1wired-paths", text},
		}},
		"put back": {"a.test / Prefix kedify-proxy:8080", map[string]string{agent.WiredPathsAnnotation: text}, nil, []operation{
			{"test", "/metadata/resourceVersion", "7"},
			{"replace", "/spec/rules/0/http/paths/0/backend/service", backend("web:80")},
			{"remove", "/metadata/annotations/http.kedify.io~1wired-paths", nil},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			i := ingress("nginx", test.path)
			i.Annotations = test.annotations
			before, err := recordOf(i)
			if err != nil {
				t.Fatal(err)
			}
			got, err := patch(i, in(test.objects, i).decide(i, before, nil))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("operations (-want +got):\n%s", diff)
			}
		})
	}
}

// Users can write the annotation. Whatever it is, an Ingress does not fail the agent, and what
// it says of paths comes back.
func FuzzRecord(f *testing.F) {
	for _, seed := range []string{
		"", "null", "[]", "{", `[{}]`, `[{"host":"a.test","path":"/","pathType":"Prefix","service":"web","port":{"number":80},"object":"web"}]`,
		`[{"path":"/x","pathType":"Exact","service":"web","port":{"name":"http"},"object":"o"},{"path":"/x","pathType":"Exact"}]`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		i := ingress("nginx", "a.test / Prefix kedify-proxy:8080", "a.test /x Exact web:80")
		i.Annotations = map[string]string{agent.WiredPathsAnnotation: text}
		r, err := recordOf(i)
		if err != nil {
			if !PointsAt(i, "web") {
				t.Errorf("%q: nothing points at web, without that it is known", text)
			}
			return
		}
		d := in([]httpv1alpha1.HTTPScaledObject{object("web", "a.test", "")}, i).decide(i, r, nil)
		if len(d.record) > 2 {
			t.Errorf("%q: %d entries for two paths", text, len(d.record))
		}
		written, err := d.record.text()
		if err != nil {
			t.Fatal(err)
		}
		i.Annotations[agent.WiredPathsAnnotation] = written
		again, err := recordOf(i)
		if diff := cmp.Diff(d.record, again); err != nil || diff != "" {
			t.Errorf("%q: %v, read again (-was +is):\n%s", text, err, diff)
		}
	})
}

// The agent's own Ingress has each backend that a user's has or gets, in a rule of its own.
func TestOwnIngress(t *testing.T) {
	i := ingress("nginx", "a.test / Prefix kedify-proxy:8080")
	before := record{entry("a.test / Prefix web:80 web")}
	d := in([]httpv1alpha1.HTTPScaledObject{object("web", "a.test", "", service("web-2"))}, i).decide(i, before, nil)
	own := ownFor(i, backends(before, d))
	var hosts, got []string
	for _, rule := range own.Spec.Rules {
		hosts = append(hosts, rule.Host)
		got = append(got, backendText(rule.HTTP.Paths[0].Backend.Service))
	}
	if diff := cmp.Diff([]string{"kedify-proxy:8080", "web:80", "web-2:80"}, got); diff != "" {
		t.Errorf("backends (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"0.uid-of-web.kedify-agent.invalid", "1.uid-of-web.kedify-agent.invalid", "2.uid-of-web.kedify-agent.invalid"}, hosts); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
	if !isOwn(own) || isOwn(i) || classOf(own) != "nginx" || own.OwnerReferences[0].UID != i.UID {
		text, _ := json.Marshal(own)
		t.Errorf("it is\n%s", text)
	}
	old := ingress("", "a.test / Prefix web:80")
	old.Spec.IngressClassName, old.Annotations = nil, map[string]string{classAnnotation: "old"}
	if got := classOf(ownFor(old, []networkingv1.IngressServiceBackend{*proxy()})); got != "old" {
		t.Errorf("its class is %q, want that of the annotation", got)
	}
	if b := backends(nil, newDecision()); len(b) > 0 {
		t.Errorf("without wired paths it has %v", b)
	}
}
