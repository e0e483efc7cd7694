package node

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

func TestPayload(t *testing.T) {
	local := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	tests := map[string]struct {
		source  corev1.VolumeSource
		want    payload
		empty   bool
		wantErr string
	}{
		"emptyDir": {source: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, empty: true},
		"configMap": {
			source: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local("cm")}},
			want:   payload{"key": {"from-cm", 0o644}, "other": {"o", 0o644}, "not a name=": {"x", 0o644}},
		},
		"configMap items and modes": {
			source: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: local("cm"), DefaultMode: ptr.To[int32](0o400),
				Items: []corev1.KeyToPath{{Key: "key", Path: "a/b"}, {Key: "other", Path: "run", Mode: ptr.To[int32](0o755)}},
			}},
			want: payload{"a/b": {"from-cm", 0o400}, "run": {"o", 0o755}},
		},
		"missing configMap":  {source: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local("none")}}, wantErr: `configmaps "none" not found`},
		"optional configMap": {source: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local("none"), Optional: ptr.To(true)}}, want: payload{}},
		"missing key": {
			source:  corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local("cm"), Items: []corev1.KeyToPath{{Key: "none", Path: "x"}}}},
			wantErr: `ConfigMap demo/cm has no key "none"`,
		},
		"path that leaves": {
			source:  corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local("cm"), Items: []corev1.KeyToPath{{Key: "key", Path: "a/../../x"}}}},
			wantErr: "expected a relative path",
		},
		"secret": {source: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "secret"}}, want: payload{"key": {"from-secret", 0o644}}},
		"downwardAPI": {
			source: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
			}}},
			want: payload{"labels": {"app=\"web\"", 0o644}},
		},
		"service account": {
			source: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: local("cm"), Items: []corev1.KeyToPath{{Key: "key", Path: "ca.crt"}}}},
				{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}}}},
			}}},
			want: payload{"token": {"the-token", 0o600}, "ca.crt": {"from-cm", 0o644}, "namespace": {"demo", 0o644}},
		},
		"hostPath": {source: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}, wantErr: "has only emptyDir"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := payloadBuilder{env: testPodEnv(), token: func(*corev1.ServiceAccountTokenProjection) (string, error) { return "the-token", nil }}
			got, madeUp, err := b.build(corev1.Volume{Name: "v", VolumeSource: tt.source})
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("build = %v, %v; want an error with %q", got, err, tt.wantErr)
				}
				return
			}
			if err != nil || madeUp == tt.empty {
				t.Fatalf("build: made %v, error %v", madeUp, err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(payloadFile{})); !tt.empty && diff != "" {
				t.Errorf("payload (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWritePayload(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "v")
	read := func() map[string]string {
		t.Helper()
		got := map[string]string{}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), "..") && e.Name() != "sub" {
				data, err := os.ReadFile(filepath.Join(dir, e.Name()))
				if err != nil {
					t.Fatal(err)
				}
				got[e.Name()] = string(data)
			}
		}
		if data, err := os.ReadFile(filepath.Join(dir, "sub", "c")); err == nil {
			got["sub/c"] = string(data)
		} else if !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return got
	}
	steps := []struct {
		content payload
		want    map[string]string
	}{
		{payload{"a": {"1", 0o644}, "sub/c": {"3", 0o400}}, map[string]string{"a": "1", "sub/c": "3"}},
		{payload{"a": {"2", 0o644}, "b": {"new", 0o644}}, map[string]string{"a": "2", "b": "new"}},
		{payload{}, map[string]string{}},
	}
	for i, step := range steps {
		if err := writePayload(dir, step.content); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, read()); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
		generations, err := filepath.Glob(filepath.Join(dir, "..2*"))
		if err != nil || len(generations) != 1 {
			t.Errorf("step %d: directories %v, %v; want the present one alone", i, generations, err)
		}
	}
}

// TestWritePayloadIsAtomic holds a directory open, as a program does that reads two
// files which belong together.
func TestWritePayloadIsAtomic(t *testing.T) {
	dir := t.TempDir()
	if err := writePayload(dir, payload{"a": {"1", 0o644}, "b": {"1", 0o644}}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		for i := range 200 {
			text := string(rune('1' + i%9))
			if err := writePayload(dir, payload{"a": {text, 0o644}, "b": {text, 0o644}}); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			return
		default:
		}
		data, err := os.Readlink(filepath.Join(dir, dataLink))
		if err != nil {
			t.Fatalf("for a moment there was no %s: %v", dataLink, err)
		}
		a, errA := os.ReadFile(filepath.Join(dir, data, "a"))
		b, errB := os.ReadFile(filepath.Join(dir, data, "b"))
		if errA == nil && errB == nil && string(a) != string(b) {
			t.Fatalf("one directory has both %s and %s", a, b)
		}
	}
}

func TestRenewAt(t *testing.T) {
	now := time.Unix(1000, 0)
	for life, want := range map[time.Duration]time.Duration{
		time.Hour: 48 * time.Minute, 10 * time.Minute: 8 * time.Minute, 365 * 24 * time.Hour: 24 * time.Hour,
	} {
		if got := renewAt(now, now.Add(life)).Sub(now); got != want {
			t.Errorf("a token of %v is renewed after %v, want %v", life, got, want)
		}
	}
}

func TestTokens(t *testing.T) {
	client := fake.NewClientset()
	var requests []*authenticationv1.TokenRequest
	var failure error
	client.PrependReactor("create", "serviceaccounts", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if failure != nil {
			return true, nil, failure
		}
		request := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenRequest).DeepCopy()
		requests = append(requests, request)
		request.Status.Token = strings.Repeat("t", len(requests))
		request.Status.ExpirationTimestamp = metav1.NewTime(time.Now().Add(time.Duration(*request.Spec.ExpirationSeconds) * time.Second))
		return true, request, nil
	})
	pod := testPodEnv().pod
	tokens := &tokens{client: client, pod: pod, cache: map[tokenKey]heldToken{}}
	get := func(p *corev1.ServiceAccountTokenProjection, want string) {
		t.Helper()
		if got, err := tokens.get(t.Context(), p); err != nil || got != want {
			t.Fatalf("token %q, %v; want %q", got, err, want)
		}
	}
	api := &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: ptr.To[int64](3607)}
	get(api, "t")
	get(api, "t") // From the cache.
	get(&corev1.ServiceAccountTokenProjection{Path: "other", Audience: "vault"}, "tt")
	want := authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "web-1", UID: "u-1"}
	if diff := cmp.Diff(want, *requests[0].Spec.BoundObjectRef); diff != "" {
		t.Errorf("the token is bound to (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"vault"}, requests[1].Spec.Audiences); diff != "" {
		t.Errorf("audiences (-want +got):\n%s", diff)
	}
	if next := time.Until(tokens.nextRenewal()); next < 47*time.Minute || next > 49*time.Minute {
		t.Errorf("next renewal in %v, want about 48m", next)
	}

	for key, held := range tokens.cache {
		tokens.cache[key] = heldToken{held.token, time.Now().Add(-time.Second)}
	}
	failure = errors.New("the API server is away")
	get(api, "t") // The old token is better than none.
	failure = nil
	for key, held := range tokens.cache {
		tokens.cache[key] = heldToken{held.token, time.Now().Add(-time.Second)}
	}
	get(api, "ttt")
	failure = errors.New("the API server is away")
	if got, err := tokens.get(t.Context(), &corev1.ServiceAccountTokenProjection{Audience: "new"}); err == nil || !strings.Contains(err.Error(), "demo/robot") {
		t.Errorf("without a held token: %q, %v; want an error that names the ServiceAccount", got, err)
	}
}

func TestInside(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "v", "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(dir, "v", "out")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a", filepath.Join(dir, "v", "in")); err != nil {
		t.Fatal(err)
	}
	for sub, good := range map[string]bool{"a": true, "in": true, ".": true, "out": false, "../": false, "none": false} {
		if got, err := inside(filepath.Join(dir, "v"), sub); (err == nil) != good {
			t.Errorf("inside(%q) = %q, %v", sub, got, err)
		}
	}
}

func TestEtcFiles(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web-0"},
		Spec: corev1.PodSpec{
			Subdomain: "web", HostAliases: []corev1.HostAlias{{IP: "10.0.0.9", Hostnames: []string{"a.example", "b.example"}}},
			DNSConfig: &corev1.PodDNSConfig{
				Nameservers: []string{"10.0.0.53"}, Searches: []string{"example"}, Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: ptr.To("2")}, {Name: "rotate"}},
			},
		},
	}
	want := "# Written by the sandbox's node.\n127.0.0.1\tlocalhost\n10.244.1.1\tweb-0.web.demo.svc.cluster.local\tweb-0\n10.0.0.9\ta.example\tb.example\n"
	if diff := cmp.Diff(want, hostsFile(pod, "10.244.1.1")); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
	server := netip.MustParseAddr("10.96.0.10")
	want = "search demo.svc.cluster.local svc.cluster.local cluster.local example\nnameserver 10.96.0.10\noptions ndots:5\nnameserver 10.0.0.53\noptions ndots:2\noptions rotate\n"
	if diff := cmp.Diff(want, resolvConf(pod, server)); diff != "" {
		t.Errorf("resolv.conf (-want +got):\n%s", diff)
	}
	pod.Spec.DNSPolicy = corev1.DNSNone
	want = "search example\nnameserver 10.0.0.53\noptions ndots:2\noptions rotate\n"
	if diff := cmp.Diff(want, resolvConf(pod, server)); diff != "" {
		t.Errorf("resolv.conf of its own (-want +got):\n%s", diff)
	}
	pod.Spec.DNSPolicy, pod.Spec.DNSConfig = corev1.DNSDefault, nil
	if diff := cmp.Diff("nameserver 10.96.0.10\n", resolvConf(pod, server)); diff != "" {
		t.Errorf("resolv.conf of the node (-want +got):\n%s", diff)
	}
	pod.Spec.Hostname = strings.Repeat("a", 62) + ".bcd"
	if got := hostname(pod); got != strings.Repeat("a", 62) {
		t.Errorf("host name %q of %d bytes", got, len(got))
	}
}
