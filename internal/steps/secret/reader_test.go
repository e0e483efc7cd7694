package secret

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

func TestValues(t *testing.T) {
	for text, want := range map[string]string{
		`"a text"`: "a text",
		`""`:       "",
		`{"valueFrom":{"secretKeyRef":{"name":"ci","key":"token"}}}`:                       "ci/token",
		`{"valueFrom":{"secretKeyRef":{"name":"ci","key":"token","namespace":"secrets"}}}`: "secrets/ci/token",
		`{"valueFrom":{"secretKeyRef":{"name":"ci","key":"token","namespace":"other"}}}`:   `error: request.url.valueFrom.secretKeyRef.namespace "other": want the namespace that the plugin is registered with (--secrets-namespace)`,
		`{"valueFrom":{"secretKeyRef":{"name":"ci"}}}`:                                     "error: request.url.valueFrom.secretKeyRef.key: want a key",
		`{"valueFrom":{"secretKeyRef":{"key":"ci"}}}`:                                      "error: request.url.valueFrom.secretKeyRef.name: want the object's name",
		`{"valueFrom":{"secretKeyRef":{"name":"ci","kye":"token"}}}`:                       `error: request.url: valueFrom.secretKeyRef.kye: the key is not known: did you mean "key"?`,
		`{"valueFrom":{"configMapKeyRef":{"name":"ci","key":"token"}}}`:                    `error: request.url: valueFrom.configMapKeyRef: the key is not known`,
		`{"ValueFrom":{"secretKeyRef":{"name":"ci","key":"token"}}}`:                       `error: request.url: ValueFrom: the key is not known: did you mean "valueFrom"?`,
		`{"valueFrom":{}}`: "error: request.url: want a string, or valueFrom with a secretKeyRef",
		`{}`:               "error: request.url: want a string, or valueFrom with a secretKeyRef",
		`7`:                "error: request.url: want a string, or valueFrom with a secretKeyRef",
		`["s3cret"]`:       "error: request.url: want a string, or valueFrom with a secretKeyRef",
	} {
		var value Value
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		got, ref, err := value.Parse("request.url", "secrets")
		switch {
		case err != nil:
			got = "error: " + err.Error()
		case ref != nil:
			got = strings.TrimPrefix(ref.Namespace+"/"+ref.Name+"/"+ref.Key, "/")
		}
		if strings.HasPrefix(want, "error: ") && strings.HasPrefix(got, want) || got == want {
			continue
		}
		t.Errorf("%s: got %q, want %q", text, got, want)
	}
	var value Value
	if err := json.Unmarshal([]byte(`{"valueFrom":{"secretKeyRef":{"name":"ci","key":"token","namespace":"x"}}}`), &value); err != nil {
		t.Fatal(err)
	}
	if _, _, err := value.Parse("request.url", ""); err == nil {
		t.Error("without --secrets-namespace, a namespace is taken")
	}
	if (&Value{}).IsZero() != true || value.IsZero() {
		t.Error("IsZero is wrong")
	}
}

func put(server *apiservertest.Server, namespace, name string, data map[string]string) {
	secret := corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{}}
	for key, value := range data {
		secret.Data[key] = []byte(value)
	}
	server.PutObject("secrets", secret)
}

func TestReader(t *testing.T) {
	server := apiservertest.New(t)
	put(server, "demo", "ci", map[string]string{"token": "s3cret\r\n", "user": "jenkins\n", "empty": "\n", "inner": "a\nb"})
	put(server, "secrets", "ci", map[string]string{"token": "elsewhere"})
	server.PutObject("configmaps", corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "ca"}, Data: map[string]string{"ca.crt": "PEM"}, BinaryData: map[string][]byte{"binary": []byte("bytes")}})
	reader := NewReader(kube.NewObjects(server.Config), "demo")
	for _, test := range []struct {
		ref  KeyRef
		want string
	}{
		{KeyRef{Name: "ci", Key: "token"}, "s3cret"},
		{KeyRef{Name: "ci", Key: "inner"}, "a\nb"},
		{KeyRef{Name: "ci", Key: "token", Namespace: "secrets"}, "elsewhere"},
		{KeyRef{Name: "ci", Key: "empty"}, `error: Secret demo/ci: the key "empty" is empty`},
		{KeyRef{Name: "ci", Key: "tokn"}, `error: Secret demo/ci has no key "tokn"`},
		{KeyRef{Name: "other", Key: "token"}, `error: Secret demo/other does not exist`},
		{KeyRef{Name: "../../namespaces/secrets/secrets/ci", Key: "token"}, `error: Secret demo/../../namespaces/secrets/secrets/ci cannot be read: `},
	} {
		got, err := reader.Secret(t.Context(), &test.ref)
		if err != nil {
			got = "error: " + err.Error()
		}
		begins := strings.HasSuffix(test.want, "read: ") && strings.HasPrefix(got, test.want)
		if got != test.want && !begins {
			t.Errorf("%+v: got %q, want %q", test.ref, got, test.want)
		}
	}
	if got := reader.Redactor.Text("s3cret elsewhere"); got != "*** ***" {
		t.Errorf("what was read is not replaced: %q", got)
	}
	for key, want := range map[string]string{"ca.crt": "PEM", "binary": "bytes"} {
		if got, err := reader.Certificates(t.Context(), "ConfigMap", &KeyRef{Name: "ca", Key: key}); err != nil || string(got) != want {
			t.Errorf("ConfigMap, %s: got %q, %v", key, got, err)
		}
	}
	if got := reader.Redactor.Text("PEM"); got != "PEM" {
		t.Error("certificates are replaced")
	}
	if got, err := reader.Public(t.Context(), &KeyRef{Name: "ci", Key: "user"}); err != nil || got != "jenkins" {
		t.Errorf("a user's name: got %q, %v", got, err)
	}
	if got := reader.Redactor.Text("/job/jenkins/17"); got != "/job/jenkins/17" {
		t.Errorf("a user's name is replaced: %q", got)
	}
	server.Requests()
	if _, err := reader.Secret(t.Context(), &KeyRef{Name: "ci", Key: "token"}); err != nil || len(server.Requests()) != 0 {
		t.Errorf("what was read is read again: %v", err)
	}
	server.SetFault(func(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) bool {
		apiservertest.Forbidden(w, r)
		return true
	})
	if _, err := NewReader(kube.NewObjects(server.Config), "demo").Secret(t.Context(), &KeyRef{Name: "ci", Key: "token"}); err == nil || !strings.Contains(err.Error(), "Secret demo/ci cannot be read: ") {
		t.Errorf("not granted: got %v", err)
	}
}

// Large Secrets in a namespace do not fill the controller's memory.
func TestLargeSecrets(t *testing.T) {
	server := apiservertest.New(t)
	data := map[string]string{"large": strings.Repeat("a", MaxValue+1)}
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		data[key] = strings.Repeat(key, MaxValue) + "\n"
	}
	put(server, "demo", "ci", data)
	reader := NewReader(kube.NewObjects(server.Config), "demo")
	if _, err := reader.Secret(t.Context(), &KeyRef{Name: "ci", Key: "large"}); err == nil || err.Error() != `Secret demo/ci: the key "large" has 8193 bytes: want 8192 at most` {
		t.Errorf("a large value: got %v", err)
	}
	for _, key := range []string{"a", "b", "c", "a", "d"} {
		if _, err := reader.Secret(t.Context(), &KeyRef{Name: "ci", Key: key}); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	if _, err := reader.Secret(t.Context(), &KeyRef{Name: "ci", Key: "e"}); err == nil || err.Error() != `Secret demo/ci: with the key "e" all values of Secrets that the step refers to have 40960 bytes: want 32768 at most` {
		t.Errorf("many large values: got %v", err)
	}
	if value, err := reader.Certificates(t.Context(), "Secret", &KeyRef{Name: "ci", Key: "large"}); err != nil || len(value) != MaxValue+1 {
		t.Errorf("a CA of the same size: got %d bytes, %v", len(value), err)
	}
}
