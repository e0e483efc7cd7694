package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseConfig(t *testing.T) {
	tests := map[string]struct {
		args    []string
		env     map[string]string
		want    config
		wantErr string
	}{
		"nothing":      {want: config{listen: ":8080"}},
		"blue":         {env: map[string]string{"COLOR": "blue"}, want: config{listen: ":8080", colour: "blue"}},
		"slow":         {env: map[string]string{"COLOR": "red", "LATENCY": "2"}, want: config{listen: ":8080", colour: "red", latency: 2 * time.Second}},
		"bad":          {env: map[string]string{"ERROR_RATE": "15"}, want: config{listen: ":8080", errorRate: 15}},
		"late":         {env: map[string]string{"STARTUP_DELAY": "250ms"}, want: config{listen: ":8080", startupDelay: 250 * time.Millisecond}},
		"flags win":    {args: []string{"--color=green", "--latency=0.5", "--listen-addr=:80"}, env: map[string]string{"COLOR": "red", "LATENCY": "2"}, want: config{listen: ":80", colour: "green", latency: 500 * time.Millisecond}},
		"termination":  {args: []string{"--termination-delay=3"}, want: config{listen: ":8080", terminationDelay: 3 * time.Second}},
		"bad rate":     {env: map[string]string{"ERROR_RATE": "101"}, wantErr: "error-rate"},
		"bad latency":  {env: map[string]string{"LATENCY": "-1"}, wantErr: "latency"},
		"stray":        {args: []string{"blue"}, wantErr: `unexpected argument "blue"`},
		"not a number": {env: map[string]string{"STARTUP_DELAY": "NaN"}, wantErr: "startup-delay"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parse(tt.args, func(k string) string { return tt.env[k] })
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("parse = %+v, %v; want an error with %q", got, err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(config{})); diff != "" {
				t.Errorf("config (-want +got):\n%s", diff)
			}
		})
	}
}

func get(t *testing.T, cfg config, path string) (status int, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	handler(cfg).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func TestColor(t *testing.T) {
	if status, body := get(t, config{colour: "blue"}, "/color"); status != 200 || body != `"blue"` {
		t.Errorf("/color = %d %s", status, body)
	}
	if status, body := get(t, config{colour: "blue", errorRate: 100}, "/color"); status != 500 || body != `"blue"` {
		t.Errorf("/color of a bad one = %d %s", status, body)
	}
	if status, _ := get(t, config{colour: "blue", errorRate: 100}, "/healthz"); status != 200 {
		t.Errorf("/healthz = %d", status)
	}
	if status, body := get(t, config{}, "/color"); status != 200 || !strings.Contains(`"red" "orange" "yellow" "green" "blue" "purple"`, body) {
		t.Errorf("/color without a colour = %d %s", status, body)
	}
	if status, body := get(t, config{colour: "purple"}, "/"); status != 200 || !strings.Contains(body, "purple") {
		t.Errorf("/ = %d %s", status, body)
	}
}

// /stats counts what /color has answered, and nothing else.
func TestStats(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg  config
		want string
	}{
		"good": {config{colour: "blue"}, `{"requests":3,"failed":0}`},
		"bad":  {config{colour: "blue", errorRate: 100}, `{"requests":3,"failed":3}`},
	} {
		t.Run(name, func(t *testing.T) {
			h := handler(tt.cfg)
			var body string
			for _, path := range []string{"/color", "/", "/healthz", "/color", "/stats", "/color", "/stats"} {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
				body = strings.TrimSpace(w.Body.String())
			}
			if body != tt.want {
				t.Errorf("/stats = %s, want %s", body, tt.want)
			}
		})
	}
}

func TestErrorRateIsAShare(t *testing.T) {
	cfg := config{colour: "red", errorRate: 15}
	failed := 0
	for range 2000 {
		if status, _ := get(t, cfg, "/color"); status == 500 {
			failed++
		}
	}
	// 300 expected, standard deviation 16: ten of them either side.
	if failed < 140 || failed > 460 {
		t.Errorf("%d of 2000 requests failed; want about 300", failed)
	}
}

func TestServeFinishesRequestsInFlight(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- serve(ctx, config{listen: address, colour: "blue", latency: 2 * time.Second}) }()

	deadline := time.Now().Add(time.Minute)
	for {
		response, err := http.Get("http://" + address + "/healthz")
		if err == nil {
			_ = response.Body.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	answered := make(chan string, 1)
	go func() {
		response, err := http.Get("http://" + address + "/color")
		if err != nil {
			answered <- err.Error()
			return
		}
		defer func() { _ = response.Body.Close() }()
		body, _ := io.ReadAll(response.Body)
		answered <- string(body)
	}()
	time.AfterFunc(time.Second, stop)
	if got := <-answered; got != `"blue"` {
		t.Errorf("the request in flight at the stop got %q", got)
	}
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
}
