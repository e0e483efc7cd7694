package node

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestProbeCount(t *testing.T) {
	tests := map[string]struct {
		success, failure int
		results, want    string // + and -; what was decided, or . if nothing
	}{
		"one is enough":                {1, 1, "+-+-", "+-+-"},
		"three failures":               {1, 3, "+--+---+", "+..+..-+"},
		"two successes":                {2, 1, "+-++-+", ".-.+-."},
		"goes on failing":              {1, 2, "----", ".---"},
		"first of all a failure":       {1, 3, "-+", ".+"},
		"the run begins anew each way": {2, 2, "+-+-++--", ".....+.-"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			count := probeCount{success: tt.success, failure: tt.failure}
			var got strings.Builder
			for _, r := range tt.results {
				switch decided := count.observe(r == '+'); {
				case decided:
					got.WriteRune(r)
				default:
					got.WriteRune('.')
				}
			}
			if got.String() != tt.want {
				t.Errorf("%s decided %s, want %s", tt.results, got.String(), tt.want)
			}
		})
	}
}

func TestProbeDefaults(t *testing.T) {
	want := probeTiming{period: 10 * time.Second, timeout: time.Second}
	if got := timingOf(&corev1.Probe{}); got != want {
		t.Errorf("timing %v, want %v", got, want)
	}
	if got := countOf(&corev1.Probe{}); got != (probeCount{success: 1, failure: 3}) {
		t.Errorf("thresholds %v", got)
	}
}

// probeTimes runs a probe for total in fake time, and returns when it checked and
// what it reported.
func probeTimes(t *testing.T, kind probeKind, p corev1.Probe, goodFrom, total time.Duration) (checks, reports []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), total)
		defer cancel()
		start := time.Now()
		runProbe(ctx, kind, timingOf(&p), func(context.Context) (bool, string) {
			at := time.Since(start)
			checks = append(checks, at.String())
			return at >= goodFrom, ""
		}, func(r probeResult) {
			reports = append(reports, fmt.Sprintf("%v %v", time.Since(start), r.ok))
		})
	})
	return checks, reports
}

func TestRunProbe(t *testing.T) {
	t.Run("ready soon after the start, not a period later", func(t *testing.T) {
		_, reports := probeTimes(t, readinessProbe, corev1.Probe{}, 120*time.Millisecond, 25*time.Second)
		if diff := cmp.Diff([]string{"200ms true", "10s true", "20s true"}, reports); diff != "" {
			t.Errorf("reports (-want +got):\n%s", diff)
		}
	})
	t.Run("early failures are not reported", func(t *testing.T) {
		checks, reports := probeTimes(t, startupProbe, corev1.Probe{PeriodSeconds: 2}, time.Hour, 5*time.Second)
		if diff := cmp.Diff([]string{"2s false", "4s false"}, reports); diff != "" {
			t.Errorf("reports (-want +got):\n%s", diff)
		}
		if len(checks) < 5 {
			t.Errorf("checked at %v; want some early ones", checks)
		}
	})
	t.Run("liveness has none", func(t *testing.T) {
		checks, reports := probeTimes(t, livenessProbe, corev1.Probe{InitialDelaySeconds: 3, PeriodSeconds: 2}, time.Hour, 8*time.Second)
		if diff := cmp.Diff([]string{"3s", "5s", "7s"}, checks); diff != "" {
			t.Errorf("checks (-want +got):\n%s", diff)
		}
		if len(reports) != 3 {
			t.Errorf("reports %v, want three", reports)
		}
	})
	t.Run("ends within the initial delay", func(t *testing.T) {
		if checks, _ := probeTimes(t, livenessProbe, corev1.Probe{InitialDelaySeconds: 30}, 0, time.Second); len(checks) > 0 {
			t.Errorf("checked at %v", checks)
		}
	})
}

func TestCheck(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "demo.example" || r.Header.Get("X-Probe") != "yes" || r.URL.RawQuery != "a=b" || r.UserAgent() != "kube-probe/1.34" {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/broken", http.StatusFound) })
	mux.HandleFunc("/broken", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	plain, secure := httptest.NewServer(mux), httptest.NewTLSServer(mux)
	defer plain.Close()
	defer secure.Close()
	port := func(s *httptest.Server) int32 { return int32(s.Listener.Addr().(*net.TCPAddr).Port) }
	closed, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closedPort := closed.Addr().(*net.TCPAddr).Port
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	target := probeTarget{
		podIP: "127.0.0.1", ports: []corev1.ContainerPort{{Name: "http", ContainerPort: port(plain)}},
		exec: func(_ context.Context, command []string) (bool, string) { return command[0] == "/true", command[0] },
	}
	headers := []corev1.HTTPHeader{{Name: "host", Value: "demo.example"}, {Name: "X-Probe", Value: "yes"}}
	get := func(path, port string, scheme corev1.URIScheme) corev1.ProbeHandler {
		return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.Parse(port), Scheme: scheme, HTTPHeaders: headers}}
	}
	tcp := func(port string) corev1.ProbeHandler {
		return corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.Parse(port)}}
	}
	tests := map[string]struct {
		handler corev1.ProbeHandler
		ok      bool
		output  string
	}{
		"http by name":          {get("/ok?a=b", "http", ""), true, ""},
		"https":                 {get("/ok?a=b", fmt.Sprint(port(secure)), corev1.URISchemeHTTPS), true, ""},
		"a redirect is good":    {get("/moved", "http", ""), true, ""},
		"status 500":            {get("/broken", "http", ""), false, "HTTP probe failed with statuscode: 500"},
		"status 404":            {get("/nothing", "http", ""), false, "HTTP probe failed with statuscode: 404"},
		"too slow":              {get("/slow", "http", ""), false, "deadline exceeded"},
		"no such named port":    {get("/ok", "grpc", ""), false, `no port named "grpc"`},
		"port out of range":     {get("/ok", "70000", ""), false, "70000 is not in 1 to 65535"},
		"nothing listens":       {get("/ok", fmt.Sprint(closedPort), ""), false, "connection refused"},
		"tcp":                   {tcp("http"), true, ""},
		"tcp, nothing listens":  {tcp(fmt.Sprint(closedPort)), false, "connection refused"},
		"exec":                  {corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/true"}}}, true, "/true"},
		"exec that fails":       {corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/false"}}}, false, "/false"},
		"grpc, nothing listens": {corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: int32(closedPort)}}, false, "connection refused"},
		"nothing at all":        {corev1.ProbeHandler{}, false, "no handler"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			timeout := time.Minute
			if name == "too slow" {
				timeout = 100 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			ok, output := target.check(ctx, tt.handler)
			if ok != tt.ok || !strings.Contains(output, tt.output) {
				t.Errorf("check = %v %q; want %v with %q", ok, output, tt.ok, tt.output)
			}
		})
	}
}
