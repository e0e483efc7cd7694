package httpstep

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// preset is a registration's preset.
type preset steps.Preset

func (p preset) Preset(context.Context, string) (*steps.Preset, error) {
	whole := steps.Preset(p)
	return &whole, nil
}

// credentials is a step with a secret of each kind; ANSWER is how the API answers.
const credentials = `{
	"request": {
		"url": {"valueFrom": {"secretKeyRef": {"name": "ci", "key": "url"}}},
		"headers": {"X-Api-Key": {"valueFrom": {"secretKeyRef": {"name": "ci", "key": "header"}}}, "X-Answer": "ANSWER"},
		"auth": {"AUTH"}
	},
	"outputs": {"out": "OUTPUT"},
	"poll": {
		"url": "OUTSIDE/poll", "headers": {"X-Answer": "POLL"}, "auth": {"bearer": {"valueFrom": {"secretKeyRef": {"name": "ci", "key": "other"}}}},
		"successCondition": "response.status == 200", "failureCondition": "response.status == 404", "accept": [404], "outputs": {"seen": "size(response.json.seen)"}
	},
	"cancel": {"url": "OUTSIDE/cancel", "headers": {"X-Answer": "403"}, "auth": {"AUTH"}},
	"message": "waiting for {{ outputs.out }}"
}`

var secretValues = map[string]string{
	"header": "s3cr3t-header/with+odd=&<chars>\"and\\more", "token": "s3cr3t-b34rer-t0ken", "password": "s3cr3t-p4ssword",
	"client": "s3cr3t-client", "other": "s3cr3t-other", "path": "s3cr3t-path-of-the-url",
}

// repeater answers with what it has received, in this request and in earlier ones.
type repeater struct {
	mu   sync.Mutex
	seen []string
}

func (o *repeater) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/token" {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"access_token": "s3cr3t-access-t0ken", "token_type": "Bearer", "expires_in": 30}`)
		return
	}
	authorization, key := r.Header.Get("Authorization"), r.Header.Get("X-Api-Key")
	_, password, _ := r.BasicAuth()
	all := map[string]any{"uri": "Cannot " + r.Method + " " + r.URL.RequestURI(), "encoded": base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(key))), "authorization": authorization, key: "as a key"}
	all["key"] = strings.Join([]string{key, url.QueryEscape(key), base64.StdEncoding.EncodeToString([]byte(key)), quoted(key), password}, " ")
	o.mu.Lock()
	all["seen"] = o.seen
	o.seen = append(o.seen, authorization, r.URL.RequestURI(), key)
	o.mu.Unlock()
	w.Header().Set("Echo-Authorization", authorization)
	body, _ := json.Marshal(all)
	status := 200
	switch answer := r.Header.Get("X-Answer"); answer {
	case "redirect":
		http.Redirect(w, r, "http://evil.example/"+r.URL.RequestURI()+key, http.StatusTemporaryRedirect)
		return
	case "redirect to a name":
		w.Header().Set("Location", "http://"+strings.Trim(r.URL.Query().Get("sig"), "/")+".example/")
		w.WriteHeader(http.StatusTemporaryRedirect)
		return
	case "abort":
		panic(http.ErrAbortHandler)
	case "malformed":
		if connection, _, err := w.(http.Hijacker).Hijack(); err == nil {
			fmt.Fprintf(connection, "%s %s\r\n\r\n", authorization, key)
			_ = connection.Close()
		}
		return
	default:
		_, _ = fmt.Sscan(answer, &status)
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// Whatever the outside system answers, no secret is in a status, a message, an Event or
// the log.
func TestNoSecretIsSaid(t *testing.T) {
	auths := map[string]string{
		"bearer": `"bearer": ` + ref("ci", "token"),
		"basic":  `"basic": {"username": "ci-user", "password": ` + ref("ci", "password") + `}`,
		"oauth2": `"oauth2": {"tokenURL": "OUTSIDE/token", "clientID": "client-id", "clientSecret": ` + ref("ci", "client") + `}`,
	}
	for name, auth := range auths {
		for _, answer := range []string{"200", "400", "403", "404", "429", "503", "redirect", "redirect to a name", "abort", "malformed"} {
			for _, poll := range []string{"200", "401", "404", "500", "malformed"} {
				if answer != "200" && poll != "200" {
					continue
				}
				t.Run(name+" "+answer+" "+poll, func(t *testing.T) {
					o := newOutside(t, (&repeater{}).ServeHTTP)
					config := strings.NewReplacer(`"AUTH"`, auth, "ANSWER", answer, "POLL", poll, "OUTPUT", "response.status").Replace(credentials)
					h := newHost(t, o, config)
					data := map[string]string{"url": o.URL + "/runs/" + secretValues["path"] + "?sig=" + secretValues["path"]}
					for key, value := range secretValues {
						data[key] = value + "\n"
					}
					h.putSecret("demo", "ci", data)
					said := ""
					for range 4 {
						h.run()
						said += h.last.Message + "\n" + string(h.last.Status) + "\n"
						if h.last.Phase != types.PhaseRunning {
							break
						}
					}
					if len(o.all()) == 0 || o.all()[0].header.Get("X-Api-Key") != secretValues["header"] && o.all()[0].path != "/token" {
						t.Fatalf("the outside did not get the secrets: %+v, %s", o.all(), h.last.Message)
					}
					result, _ := h.plugin.Abort(h.ro, h.call())
					said += result.Message + "\n" + h.events.text() + "\n" + h.logged()
					for name, value := range secretValues {
						for _, form := range []string{value, url.QueryEscape(value), url.PathEscape(value), base64.StdEncoding.EncodeToString([]byte(value)), quoted(value)} {
							if strings.Contains(said, form) {
								t.Errorf("%s is said: %s", name, said)
							}
						}
					}
					for _, part := range []string{"s3cr", base64.StdEncoding.EncodeToString([]byte("ci-user:" + secretValues["password"]))[:24], "t0ken"} {
						if strings.Contains(said, part) {
							t.Errorf("%q, a part of a secret, is said: %s", part, said)
						}
					}
				})
			}
		}
	}
}

// An output that holds a secret fails the step: the status would keep it.
func TestOutputsHoldNoSecret(t *testing.T) {
	for _, output := range []string{
		"response.json.uri", "response.json.authorization", "response.json.key", "response.json.map(k, k).join()", "response.json.encoded",
		`string(base64.decode(response.json.encoded))`, `response.headers['echo-authorization']`, "response.text",
	} {
		o := newOutside(t, (&repeater{}).ServeHTTP)
		auth := `"bearer": ` + ref("ci", "token")
		h := newHost(t, o, strings.NewReplacer(`"AUTH"`, auth, "ANSWER", "200", "POLL", "200", "OUTPUT", output).Replace(credentials))
		data := map[string]string{"url": o.URL + "/runs/" + secretValues["path"]}
		for key, value := range secretValues {
			data[key] = value + "\n"
		}
		h.putSecret("demo", "ci", data)
		eventually(t, "the step fails", func() bool { return h.run().Phase != types.PhaseRunning })
		h.require(types.PhaseFailed, "outputs.out: the value holds a secret of the step")
		if said := string(h.status) + h.events.text() + h.logged(); strings.Contains(said, "s3cr3t") || len(h.outputs()) > 0 {
			t.Errorf("%s: said %s", output, said)
		}
	}
}

func quoted(text string) string {
	raw, _ := json.Marshal(text)
	return string(raw[1 : len(raw)-1])
}

func TestCredentials(t *testing.T) {
	o := newOutside(t, answer200(`{}`))
	for name, test := range map[string]struct{ auth, want string }{
		"bearer":              {`{"bearer": ` + ref("ci", "token") + `}`, "Bearer t0ken"},
		"basic":               {`{"basic": {"username": "{{ rollout.name }}", "password": ` + ref("ci", "token") + `}}`, "Basic " + base64.StdEncoding.EncodeToString([]byte("app:t0ken"))},
		"basic, by reference": {`{"basic": {"username": ` + ref("ci", "user") + `, "password": ` + ref("ci", "token") + `}}`, "Basic " + base64.StdEncoding.EncodeToString([]byte("jo:t0ken"))},
		"none":                {`{}`, ""},
	} {
		h := newHost(t, o, `{"request": {"url": "OUTSIDE/`+url.PathEscape(name)+`", "auth": `+test.auth+`}}`)
		h.putSecret("demo", "ci", map[string]string{"token": "t0ken\n", "user": "jo"})
		h.run()
		h.require(types.PhaseSuccessful)
		all := o.all()
		if got := all[len(all)-1].header.Get("Authorization"); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// All requests have the credentials of the server, unless they have an empty auth.
func TestCredentialsOfOtherRequests(t *testing.T) {
	o := newOutside(t, answer200(`{}`))
	h := newHost(t, o, `{
		"server": {"url": "OUTSIDE", "auth": {"bearer": `+ref("ci", "token")+`}}, "request": {"url": "OUTSIDE/start"}, "find": {"url": "OUTSIDE/find", "found": "false"},
		"poll": {"url": "OUTSIDE/poll", "auth": {}, "successCondition": "false"}, "cancel": {"url": "OUTSIDE/cancel"}
	}`)
	h.putSecret("demo", "ci", map[string]string{"token": "t0ken"})
	h.run()
	h.run()
	_, _ = h.plugin.Terminate(h.ro, h.call())
	for path, want := range map[string]string{"/start": "Bearer t0ken", "/find": "Bearer t0ken", "/poll": "", "/cancel": "Bearer t0ken"} {
		r := first(o, map[string]string{"/find": "GET", "/poll": "GET"}[path], path)
		if r == nil {
			r = first(o, "POST", path)
		}
		if r == nil || r.header.Get("Authorization") != want {
			t.Errorf("%s: got %+v", path, r)
		}
	}
}

func TestASecretThatIsNotThere(t *testing.T) {
	o := newOutside(t, answer200(`{}`))
	h := newHost(t, o, `{"onUnknown": "Fail", "request": {"url": "OUTSIDE", "auth": {"bearer": `+ref("ci", "token")+`}}}`)
	h.until(3)
	h.require(types.PhaseRunning, "request.auth.bearer: Secret demo/ci does not exist")
	h.putSecret("demo", "ci", map[string]string{"tokn": "t0ken"})
	h.run()
	h.require(types.PhaseRunning, `Secret demo/ci has no key "token"`)
	h.putSecret("demo", "ci", map[string]string{"token": "t0k\nen"})
	h.putSecret("demo", "ci", map[string]string{"token": "t0ken"})
	h.run()
	h.require(types.PhaseSuccessful)
	h = newHost(t, o, `{"request": {"url": "OUTSIDE", "headers": {"X-Key": `+ref("ci", "token")+`}}}`)
	h.putSecret("demo", "ci", map[string]string{"token": "s3cr3t\r\nX-Injected: yes"})
	h.run()
	h.require(types.PhaseFailed, ": header X-Key: the value has a control character")
	if n := len(o.all()); n != 1 {
		t.Errorf("%d requests came through, want 1", n)
	}
}

// A preset's secret from --secrets-namespace is sent only to the preset's hosts, wherever
// its requests go.
func TestAPresetsSecretGoesToThePresetsHostsAlone(t *testing.T) {
	var back atomic.Value
	theirs := newOutside(t, answer200(`{}`)) // --allow-host allows it, and the preset does not
	presets := newOutside(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"access_token": "t0ken-of-s3cr3t"}`)
		}
		if location, ok := back.Load().(string); ok && r.URL.Path == "/redirect" {
			http.Redirect(w, r, location, http.StatusTemporaryRedirect)
		}
	})
	secret := map[string]any{"valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": "ci", "key": "token", "namespace": "secrets"}}}
	object := func(endpoint map[string]any) map[string]any {
		endpoint["url"] = presets.URL
		return map[string]any{"server": endpoint, "request": map[string]any{"url": "/"}}
	}
	defaults := map[string]map[string]any{
		"bearer": object(map[string]any{"auth": map[string]any{"bearer": secret}}),
		"own":    {"request": map[string]any{"url": presets.URL, "auth": map[string]any{"bearer": secret}}},
		"url":    {"request": map[string]any{"url": secret}},
		"header": object(map[string]any{"headers": map[string]any{"X-Key": secret}}),
		"basic":  object(map[string]any{"auth": map[string]any{"basic": map[string]any{"username": "u", "password": secret}}}),
		"oauth2": object(map[string]any{"auth": map[string]any{"oauth2": map[string]any{"tokenURL": presets.URL + "/token", "clientID": "u", "clientSecret": secret}}}),
	}
	back.Store(theirs.URL + "/redirected")
	for name, object := range defaults {
		for what, config := range map[string]string{
			"another URL":       `{"request": {"url": "` + theirs.URL + `"}}`,
			"another server":    `{"server": {"url": "` + theirs.URL + `"}}`,
			"a redirect":        `{"request": {"url": "` + presets.URL + `/redirect"}}`,
			"a poll":            `{"poll": {"url": "` + theirs.URL + `"}}`,
			"a look":            `{"find": {"url": "` + theirs.URL + `"}}`,
			"a token URL":       `{"server": {"auth": {"oauth2": {"tokenURL": "` + theirs.URL + `"}}}}`,
			"the URL":           `{}`,
			"a host in between": `{"request": {"url": "` + strings.Replace(presets.URL, "127.0.0.1", "127.0.0.1@127.0.0.1", 1) + `"}}`,
		} {
			if what == "a token URL" && name != "oauth2" || name == "url" && what != "the URL" || name != "url" && what == "the URL" {
				continue
			}
			t.Run(name+", "+what, func(t *testing.T) {
				// Here the preset itself has this configuration: another test is about
				// what a Rollout may set.
				h := newHost(t, theirs, `{}`)
				h.preset = preset{Defaults: over(t, object, config), Hosts: []string{strings.TrimPrefix(presets.URL, "http://")}}
				h.restart()
				token := "s3cr3t"
				if name == "url" {
					token = theirs.URL + "/s3cr3t"
				}
				h.putSecret("secrets", "ci", map[string]string{"token": token})
				h.until(4)
				// What goes to another host than the server has no credentials.
				harmless := what == "a poll" || what == "a look" || what == "another URL" && name != "own" || what == "another server" && name == "own"
				if !harmless { // the preset itself is wrong, or its request is refused
					if h.last.Phase == types.PhaseSuccessful {
						t.Errorf("got %s %q", h.last.Phase, h.last.Message)
					}
				}
				for _, r := range theirs.all() {
					if strings.Contains(fmt.Sprint(r), "s3cr3t") {
						t.Errorf("another host got %+v", r)
					}
				}
			})
		}
	}
	h := newHost(t, theirs, `{}`)
	h.preset = preset{Defaults: defaults["bearer"], Hosts: []string{strings.TrimPrefix(presets.URL, "http://")}}
	h.restart()
	h.putSecret("secrets", "ci", map[string]string{"token": "s3cr3t"})
	h.run()
	h.require(types.PhaseSuccessful)
	all := presets.all()
	if got := all[len(all)-1].header.Get("Authorization"); got != "Bearer s3cr3t" {
		t.Errorf("the preset's host got %q", got)
	}
}

// over returns a copy of an object with what a configuration has laid over it.
func over(t *testing.T, under map[string]any, config string) map[string]any {
	t.Helper()
	text, err := json.Marshal(under)
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	for _, text := range []string{string(text), config} {
		var layer map[string]any
		if err := json.Unmarshal([]byte(text), &layer); err != nil {
			t.Fatal(err)
		}
		object = merged(object, layer)
	}
	return object
}

func merged(under, over map[string]any) map[string]any {
	if under == nil {
		return over
	}
	for key, value := range over {
		if inner, isObject := value.(map[string]any); isObject {
			below, _ := under[key].(map[string]any)
			value = merged(below, inner)
		}
		under[key] = value
	}
	return under
}

func TestARolloutNamesNoOtherNamespace(t *testing.T) {
	o := newOutside(t, answer200(`{}`))
	for _, name := range []string{"secrets", "demo", "kube-system"} {
		h := newHost(t, o, `{"request": {"url": "OUTSIDE", "headers": {"X-Key": {"valueFrom": {"secretKeyRef": {"name": "ci", "key": "token", "namespace": "`+name+`"}}}}}}`)
		h.putSecret(name, "ci", map[string]string{"token": "s3cr3t"})
		h.run()
		h.require(types.PhaseFailed, "a Rollout refers to Secrets and ConfigMaps of its own namespace alone")
		// An error about the ConfigMap would reveal whether it exists, and its keys.
		h = newHost(t, o, `{"request": {"url": "OUTSIDE", "caFrom": {"configMapKeyRef": {"name": "ca", "key": "ca.crt", "namespace": "`+name+`"}}}}`)
		h.run()
		h.require(types.PhaseFailed, "request.caFrom.configMapKeyRef.namespace: a Rollout refers to")
	}
	if n := len(o.all()); n != 0 {
		t.Errorf("%d requests came through", n)
	}
}

func TestCAByReference(t *testing.T) {
	server := httptest.NewTLSServer(answer200("{}"))
	defer server.Close()
	certificate := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	o := newOutside(t, answer200(""))
	for kind, put := range map[string]func(*host, string){
		"secretKeyRef": func(h *host, text string) { h.putSecret("demo", "ca", map[string]string{"ca.crt": text}) },
		"configMapKeyRef": func(h *host, text string) {
			h.api.PutObject("configmaps", corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "ca"}, Data: map[string]string{"ca.crt": text}})
		},
	} {
		h := newHost(t, o, `{"server": {"url": "`+server.URL+`", "caFrom": {"`+kind+`": {"name": "ca", "key": "ca.crt"}}}, "request": {}, "poll": {}}`)
		h.run()
		h.require(types.PhaseRunning, "demo/ca does not exist")
		for _, text := range []string{"", "no PEM"} {
			put(h, text)
			h.run()
			h.require(types.PhaseRunning, "the CA has no certificate")
		}
		put(h, certificate)
		h.until(3)
		h.require(types.PhaseSuccessful)
	}
	h := newHost(t, o, `{"request": {"url": "`+server.URL+`"}}`)
	h.run()
	h.require(types.PhaseRunning, "unknown authority")
	// An empty CA does not fall back to the system's authorities.
	h = newHost(t, o, `{"request": {"url": "`+server.URL+`", "caFrom": {"secretKeyRef": {"name": "ca", "key": "ca.crt"}}}}`)
	h.api.PutObject("secrets", map[string]any{"metadata": map[string]any{"namespace": "demo", "name": "ca"}, "data": map[string]any{"ca.crt": nil}})
	h.run()
	h.require(types.PhaseRunning, "the CA has no certificate")
}

func TestManyAndLargeSecrets(t *testing.T) {
	o := newOutside(t, answer200(`{}`))
	step := func(n int) *host {
		data, headers := map[string]string{}, []string{}
		for i := range n {
			key := fmt.Sprint("key", i)
			data[key] = "value-" + key
			headers = append(headers, fmt.Sprintf(`"X-%s": %s`, key, ref("ci", key)), fmt.Sprintf(`"X-Again-%s": %s`, key, ref("ci", key)))
		}
		h := newHost(t, o, `{"request": {"url": "OUTSIDE", "headers": {`+strings.Join(headers, ",")+`}}}`)
		h.putSecret("demo", "ci", data)
		h.run()
		return h
	}
	step(maxReferences).require(types.PhaseSuccessful)
	step(maxReferences+1).require(types.PhaseFailed, "references to 33 values of Secrets: want 32 at most")
	h := newHost(t, o, `{"request": {"url": "OUTSIDE", "headers": {"X-Key": `+ref("ci", "large")+`}}}`)
	h.putSecret("demo", "ci", map[string]string{"large": strings.Repeat("a", 1<<20)})
	h.run()
	h.require(types.PhaseRunning, `request.headers.X-Key: Secret demo/ci: the key "large" has 1048576 bytes: want 8192 at most`)
}
