package envoy

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoytest"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// logged returns the lines of Envoy's access log that match, once there is the one with
// the request ID "last".
func logged(t *testing.T, e *envoytest.Envoy, line *regexp.Regexp) []string {
	t.Helper()
	var lines []string
	e.Wait("the last line of its access log", func() error {
		lines = nil
		for text := range strings.Lines(e.Log()) {
			if text = strings.TrimSpace(text); line.MatchString(text) {
				lines = append(lines, text)
			}
		}
		if len(lines) == 0 || !strings.Contains(lines[len(lines)-1], `"last"`) {
			return fmt.Errorf("there are %q", lines)
		}
		return nil
	})
	return lines
}

// The access log has the requests that its mode says, and each field.
func TestAccessLogByARealEnvoy(t *testing.T) {
	app := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprint(w, "12345")
	}))
	for mode, want := range map[string][]string{
		routes.AccessLogAll:       {"annotated", "plain", "nobody", "last"},
		routes.AccessLogAnnotated: {"annotated", "last"},
	} {
		t.Run(mode, func(t *testing.T) {
			w := newWorld(t)
			w.service("app", routes.HTTP1, app)
			w.object("plain", "app", "", nil)
			w.object("annotated", "app", "- {service: app, weight: 1}\n", func(o *httpv1alpha1.HTTPScaledObject) {
				o.Annotations[routes.AccessLogAnnotation] = "true"
			})
			e, address := runEnvoy(t, static(t, newTranslator(t, Options{AccessLog: mode}), w.table(), nil), "--file-flush-interval-msec", "50")
			for _, id := range []string{"annotated", "plain", "nobody"} {
				exchangeRaw(t, address, "GET /a%20b?secret=1 HTTP/1.1\r\nHost: "+id+".example.com\r\nX-Request-Id: "+id+"\r\n\r\n")
			}
			exchangeRaw(t, address, "POST /x\"y HTTP/1.1\r\nHost: annotated.example.com\r\nX-Request-Id: last\r\nContent-Length: 0\r\n\r\n")
			var ids []string
			for _, line := range logged(t, e, regexp.MustCompile(`^\{.*\}$`)) {
				var fields map[string]any
				if err := json.Unmarshal([]byte(line), &fields); err != nil {
					t.Fatalf("%v in %s", err, line)
				}
				if strings.Contains(line, "secret") {
					t.Errorf("it has the query: %s", line)
				}
				ids = append(ids, fmt.Sprint(fields["request_id"]))
				if fields["request_id"] != "last" {
					continue
				}
				for _, number := range []string{"duration_ms", "header_ms"} {
					if _, is := fields[number].(float64); !is {
						t.Errorf("%s is %v", number, fields[number])
					}
				}
				if at := fmt.Sprint(fields["time"]); !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`).MatchString(at) {
					t.Errorf("the time is %s", at)
				}
				for _, varies := range []string{"time", "duration_ms", "header_ms"} {
					delete(fields, varies)
				}
				if diff := cmp.Diff(map[string]any{
					"request_id": "last", "cluster": "demo/annotated/app", "endpoint": app.String(), "method": "POST",
					"host": "annotated.example.com", "path": `/x"y`, "code": 418.0, "bytes": 5.0, "flags": "-",
				}, fields); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			}
			if diff := cmp.Diff(want, ids); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTextAccessLogByARealEnvoy(t *testing.T) {
	w := newWorld(t)
	app := refusing(t)
	w.service("app", routes.HTTP1, app)
	w.object("app", "app", "", nil)
	e, address := runEnvoy(t, static(t, newTranslator(t, Options{AccessLog: routes.AccessLogAll, AccessLogFormat: routes.AccessLogText}), w.table(), nil), "--file-flush-interval-msec", "50")
	exchangeRaw(t, address, "GET /x?y HTTP/1.1\r\nHost: app.example.com\r\nX-Request-Id: last\r\n\r\n")
	line := logged(t, e, regexp.MustCompile("^time="))[0]
	want := `^time=\S+Z request_id="last" cluster=demo/app/app endpoint=` + regexp.QuoteMeta(app.String()) +
		` method="GET" host="app.example.com" path="/x" code=503 bytes=\d+ duration_ms=\d+ header_ms=- flags=\S*UF\S*$`
	if !regexp.MustCompile(want).MatchString(line) {
		t.Errorf("%s\nis not as %s", line, want)
	}
}

// A client can make a method as long as a header over HTTP/2. The log has its beginning.
func TestAccessLogOfALongMethodByARealEnvoy(t *testing.T) {
	w := newWorld(t)
	w.service("app", routes.HTTP1, refusing(t))
	w.object("app", "app", "", nil)
	e, address := runEnvoy(t, static(t, newTranslator(t, Options{AccessLog: routes.AccessLogAll}), w.table(), nil), "--file-flush-interval-msec", "50")
	r, err := http.NewRequest(strings.Repeat("M", 8000), "http://"+address+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Request-Id", "last")
	res, err := oneConnection(t).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	line := logged(t, e, regexp.MustCompile(`^\{.*\}$`))[0]
	if want := `"method":"` + strings.Repeat("M", 32) + `"`; !strings.Contains(line, want) {
		t.Errorf("%s\nhas no %s", line, want)
	}
}

// x-request-id is passed on as it is, or made; traceparent is passed on as it is.
func TestRequestIDByARealEnvoy(t *testing.T) {
	app := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%q %q", r.Header["X-Request-Id"], r.Header["Traceparent"])
	}))
	w := newWorld(t)
	w.service("app", routes.HTTP1, app)
	w.object("app", "app", "", nil)
	address := startEnvoy(t, static(t, newTranslator(t, Options{}), w.table(), nil))
	const uuid, trace = "01234567-89ab-4cde-8f01-23456789abcd", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for name, tt := range map[string]struct{ id, trace, want string }{
		"made":     {want: `^\["[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"\] \[\]$`},
		"a UUID":   {id: uuid, trace: trace, want: `^\["` + uuid + `"\] \["` + trace + `"\]$`},
		"no UUID":  {id: "mine", want: `^\["mine"\] \[\]$`},
		"sampled?": {trace: trace, want: `^\["[0-9a-f-]{36}"\] \["` + trace + `"\]$`},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequest(http.MethodGet, "http://"+address+"/", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = "app.example.com"
			for header, value := range map[string]string{"X-Request-Id": tt.id, "Traceparent": tt.trace} {
				if value != "" {
					r.Header.Set(header, value)
				}
			}
			res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			body, err := io.ReadAll(res.Body)
			if err != nil || !regexp.MustCompile(tt.want).Match(body) {
				t.Errorf("the application gets %s, %v", body, err)
			}
			if res.Header.Get("X-Request-Id") != "" {
				t.Errorf("the client gets %v", res.Header)
			}
		})
	}
}
