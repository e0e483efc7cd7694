package httpstep

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// The server's URL, headers and credentials are for all requests to it.
func TestAServerForAllRequests(t *testing.T) {
	o := newOutside(t, answer200(`{"id": "7"}`))
	a := newAttempt(t, o, `{
		"server": {"url": "OUTSIDE/api/", "headers": {"Accept": "application/json", "X-Who": "server"}, "auth": {"bearer": `+ref("ci", "token")+`}},
		"request": {"url": "/runs", "headers": {"x-who": "request"}}, "outputs": {"id": "response.json.id"},
		"find": {"url": "/runs?key={{ step.key }}", "found": "false", "outputs": {"id": "''"}},
		"poll": {"url": "/runs/{{ outputs.id }}", "auth": {}, "successCondition": "false"},
		"cancel": {"url": "OUTSIDE/api/runs/{{ outputs.id }}/cancel"}, "onAbort": {"method": "DELETE"}
	}`)
	a.api.PutObject("secrets", secretOf("demo", "ci", map[string]string{"token": "t0ken"}))
	p, _ := a.start(steps.Running)
	a.work.Outputs, a.work.Earlier = p.Outputs, steps.Done
	_, _ = a.poll(steps.Running)
	if err := a.step.Cancel(t.Context(), a.work); err != nil {
		t.Error(err)
	}
	if err := a.step.Undo(t.Context(), a.work); err != nil {
		t.Error(err)
	}
	for _, want := range []string{
		"GET /api/runs?key=" + a.work.Key + " server Bearer t0ken", "POST /api/runs request Bearer t0ken", "GET /api/runs/7 server ",
		"POST /api/runs/7/cancel server Bearer t0ken", "DELETE /api/ server Bearer t0ken",
	} {
		found := false
		for _, r := range o.all() {
			got := fmt.Sprintf("%s %s %s %s", r.method, r.path, r.header.Get("X-Who"), r.header.Get("Authorization"))
			found = found || got == want && r.header.Get("Accept") == "application/json"
		}
		if !found {
			t.Errorf("there is no %s in %+v", want, o.all())
		}
	}
}

// What is the server's goes to no other host, whatever the answer says.
func TestTheServersCredentialsGoToTheServerAlone(t *testing.T) {
	other := newOutside(t, answer200(`{}`))
	o := newOutside(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"mine": "http://%s/mine", "other": %q}`, r.Host, other.URL+"/other")
	})
	const server = `"server": {"url": URL, "headers": {"X-Key": KEY}, "auth": {"bearer": KEY}}, "outputs": {"mine": "response.json.mine", "other": "response.json.other"}, "request": {"url": "/"}`
	for _, url := range []string{`"OUTSIDE"`, ref("ci", "url")} {
		for target, sent := range map[string]bool{"{{ outputs.mine }}": true, "{{ outputs.other }}": false, other.URL + "/other": false, "{{ raw(outputs.other) }}": false} {
			a := newAttempt(t, o, `{`+strings.NewReplacer("URL", url, "KEY", ref("ci", "token")).Replace(server)+`, "poll": {"url": "`+target+`", "successCondition": "false"}}`)
			a.api.PutObject("secrets", secretOf("demo", "ci", map[string]string{"token": "t0ken", "url": o.URL}))
			p, _ := a.start(steps.Running)
			a.work.Outputs = p.Outputs
			_, _ = a.poll(steps.Running)
			all := other.all()
			if sent {
				all = o.all()
			}
			got := all[len(all)-1]
			if has := strings.Contains(fmt.Sprint(got.header), "t0ken"); has != sent || !strings.HasPrefix(got.path, map[bool]string{true: "/mine", false: "/other"}[sent]) {
				t.Errorf("server %s, %s: got %+v", url, target, got)
			}
		}
	}
}

// An annotation does not change where a request goes.
func TestValuesInURLsAreEscaped(t *testing.T) {
	for value, want := range map[string]string{
		"a?admin=true#": "/runs/a%3Fadmin%3Dtrue%23?of=a%3Fadmin%3Dtrue%23",
		"a/b":           "/runs/a%2Fb?of=a%2Fb",
		"ä b&c=d":       "/runs/%C3%A4%20b%26c%3Dd?of=%C3%A4%20b%26c%3Dd",
		"%2e%2e":        "/runs/%252e%252e?of=%252e%252e",
		"..":            "", ".": "", "": "", "a/../../admin": "", // which a server could resolve
	} {
		for _, url := range []string{`"OUTSIDE/runs/VALUE?of=VALUE"`, `"/runs/VALUE?of=VALUE"`} {
			o := newOutside(t, answer200(""))
			a := newAttempt(t, o, `{"server": {"url": "OUTSIDE"}, "request": {"url": `+strings.ReplaceAll(url, "VALUE", "{{ rollout.annotations.a }}")+`}}`)
			a.work.Rollout.Annotations["a"] = value
			if want == "" {
				_, _ = a.start(steps.Failed, "request.url: ")
				continue
			}
			if _, _ = a.start(steps.Successful); o.all()[0].path != want {
				t.Errorf("%q: got %s, want %s", value, o.all()[0].path, want)
			}
		}
	}
}

func TestAForm(t *testing.T) {
	o := newOutside(t, answer200(""))
	a := newAttempt(t, o, `{"request": {"url": "OUTSIDE", "form": {"text": "{{ rollout.name }} & more\n", "channel": "#a"}}}`)
	_, _ = a.start(steps.Successful)
	if r := o.all()[0]; r.body != "channel=%23a&text=app+%26+more%0A" || r.header.Get("Content-Type") != "application/x-www-form-urlencoded" {
		t.Errorf("got %+v", r)
	}
}

// A value in json keeps its type.
func TestTypesInJSON(t *testing.T) {
	o := newOutside(t, answer200(""))
	a := newAttempt(t, o, `{"request": {"url": "OUTSIDE", "json": {"n": "{{ step.index }}", "text": "n {{ step.index }}", "all": "{{ rollout.annotations }}"}}}`)
	a.work.Rollout.Annotations["a"] = "b"
	_, _ = a.start(steps.Successful)
	if got, want := o.all()[0].body, `{"all":{"a":"b"},"n":0,"text":"n 0"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// certificate makes a certificate that is its own authority.
func certificate(t *testing.T, name string) (cert tls.Certificate, certPEM, keyPEM string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	keyPEM = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
	if cert, err = tls.X509KeyPair([]byte(certPEM), []byte(keyPEM)); err != nil {
		t.Fatal(err)
	}
	return cert, certPEM, keyPEM
}

func TestAClientCertificate(t *testing.T) {
	_, clientPEM, keyPEM := certificate(t, "step")
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM([]byte(clientPEM))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"who": %q, "key": %q}`, r.TLS.PeerCertificates[0].Subject.CommonName, keyPEM)
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authorities}
	server.StartTLS()
	t.Cleanup(server.Close)
	o := newOutside(t, answer200(""))
	config := `{
		"server": {"url": "` + server.URL + `", "caFrom": {"configMapKeyRef": {"name": "ca", "key": "ca.crt"}}, "clientCertificateFrom": {"secretRef": {"name": "client"}}},
		"request": {"url": "/runs"}, "outputs": {"who": OUTPUT}
	}`
	for output, phase := range map[string]steps.Phase{"response.json.who": steps.Successful, "response.json.key": steps.Failed} {
		a := newAttempt(t, o, strings.Replace(config, "OUTPUT", `"`+output+`"`, 1))
		ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
		a.api.PutObject("configmaps", map[string]any{"metadata": map[string]any{"namespace": "demo", "name": "ca"}, "data": map[string]string{"ca.crt": ca}})
		_, _ = a.start("", "server.clientCertificateFrom: Secret demo/client does not exist")
		a.api.PutObject("secrets", secretOf("demo", "client", map[string]string{"tls.crt": clientPEM, "tls.key": keyPEM}))
		p, _ := a.start(phase)
		if phase == steps.Successful && p.Outputs["who"] != "step" {
			t.Errorf("got %+v", p)
		}
	}
}

// A preset's Secret goes where the preset says: not where an expression does.
func TestAPresetWithASecretSaysTheHost(t *testing.T) {
	const token = `{"valueFrom": {"secretKeyRef": {"namespace": "secrets", "name": "ci", "key": "token"}}}`
	kind := newKind(t)
	for config, want := range map[string]string{
		`{"request": {"url": "https://ci.example.com/{{ rollout.name }}", "auth": {"bearer": TOKEN}}}`:  "",
		`{"request": {"url": "{{ rollout.annotations.url }}", "auth": {"bearer": TOKEN}}}`:              "request.url: want a URL that begins with the scheme and the host",
		`{"request": {"url": "{{ raw(rollout.annotations.url) }}", "auth": {"bearer": TOKEN}}}`:         "request.url: want a URL that begins",
		`{"request": {"url": "https://{{ rollout.name }}.example.com/", "headers": {"X-Key": TOKEN}}}`:  "request.url: want a URL that begins",
		`{"request": {"url": "https://ci.example.com{{ rollout.name }}", "headers": {"X-Key": TOKEN}}}`: "request.url: want a URL that begins",
		`{"request": {"url": TOKEN}}`: "",
		`{"request": {"url": ` + ref("mine", "url") + `, "auth": {"bearer": TOKEN}}}`:                                                                                            "request.url: want a URL that begins",
		`{"server": {"url": ` + ref("mine", "url") + `, "auth": {"bearer": TOKEN}}, "request": {"url": "/"}}`:                                                                    "server.url: want a URL that begins",
		`{"server": {"url": "https://ci.example.com", "auth": {"bearer": TOKEN}}, "request": {"url": "/{{ rollout.name }}"}}`:                                                    "",
		`{"server": {"url": "{{ rollout.annotations.url }}", "auth": {"bearer": TOKEN}}, "request": {"url": "/"}}`:                                                               "server.url: want a URL that begins",
		`{"server": {"url": "https://ci.example.com", "auth": {"bearer": TOKEN}}, "request": {"url": "{{ rollout.annotations.url }}"}}`:                                          "request.url: want a URL that begins",
		`{"server": {"url": "https://ci.example.com", "auth": {"bearer": TOKEN}}, "request": {"url": "{{ rollout.annotations.url }}", "auth": {}}}`:                              "",
		`{"request": {"url": "https://ci.example.com", "auth": {"oauth2": {"tokenURL": "{{ rollout.name }}", "clientID": "a", "clientSecret": TOKEN}}}}`:                         "request.auth.oauth2.tokenURL: want a URL that begins",
		`{"server": {"url": "https://ci.example.com", "clientCertificateFrom": {"secretRef": {"name": "a", "namespace": "secrets"}}}, "request": {"url": "{{ rollout.name }}"}}`: "request.url: want a URL that begins",
	} {
		section := json.RawMessage(strings.ReplaceAll(config, "TOKEN", token))
		_, err := kind.Parse(steps.Source{Config: section, Defaults: section, Preset: "ci", PresetHosts: []string{"*.example.com"}})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", config, err, want)
		}
	}
	// A client's certificate of another namespace is for presets alone, too.
	const preset = `{"server": {"url": "https://ci.example.com", "clientCertificateFrom": {"secretRef": {"name": "NAME", "namespace": "secrets"}}}, "request": {"url": "/"}}`
	for name, defaults := range map[string]string{"mine": "null", "other": strings.Replace(preset, "NAME", "ci", 1)} {
		_, err := kind.Parse(steps.Source{Config: json.RawMessage(strings.Replace(preset, "NAME", name, 1)), Defaults: json.RawMessage(defaults), PresetHosts: []string{"ci.example.com"}})
		if err == nil || !strings.Contains(err.Error(), "request has a Secret of another namespace") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
