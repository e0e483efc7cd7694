package loadclient

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestCountsThatClientsPrint(t *testing.T) {
	const (
		wrk    = "  1 threads and 32 connections\n    Req/Sec    24.79k    14.66k\n  47312 requests in 2.07s, 5.32MB read\n"
		h2load = "requests: 56154 total, 56186 started, 56154 done, "
	)
	for _, tt := range []struct {
		client Client
		output string
		want   Counts
	}{
		{Wrk, wrk, Counts{Requests: 47312}},
		{Wrk, wrk + "  Non-2xx or 3xx responses: 9\n", Counts{47312, 9}},
		{Wrk, wrk + "  Socket errors: connect 1, read 2, write 4, timeout 8\n  Non-2xx or 3xx responses: 16\n", Counts{47312, 31}},
		{H2load, h2load + "56154 succeeded, 0 failed, 0 errored, 0 timeout\n", Counts{Requests: 56154}},
		{H2load, h2load + "56135 succeeded, 19 failed, 8 errored, 2 timeout\n", Counts{56154, 21}},
	} {
		if got, err := tt.client.Read(tt.output); got != tt.want || err != nil {
			t.Errorf("%s: %+v, %v; want %+v of\n%s", tt.client.Name, got, err, tt.want, tt.output)
		}
		if _, err := tt.client.Read("nothing"); err == nil {
			t.Errorf("%s: no error where it says nothing", tt.client.Name)
		}
	}
}

// The programs print these counts, for requests that are answered and for those that
// fail.
func TestClientsCount(t *testing.T) {
	var sent atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := sent.Add(1)
		switch {
		case r.Host != "app.test":
			t.Errorf("the host is %q", r.Host)
		case r.URL.Path == "/fails" && n%100 == 0:
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/ends" && n%100 == 0:
			panic(http.ErrAbortHandler)
		}
	}))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	for _, client := range []Client{Wrk, H2load} {
		for path, fails := range map[string]bool{"/": false, "/fails": true, "/ends": true} {
			counts, output, err := client.Do(t.Context(), Run{
				Target: strings.TrimPrefix(server.URL, "http://"), Host: "app.test", Path: path, Duration: time.Second,
			})
			if errors.Is(err, exec.ErrNotFound) && os.Getenv("CI") == "" {
				t.Skip(err)
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, output)
			}
			if counts.Requests == 0 || (counts.Failed > 0) != fails {
				t.Errorf("%s, %s: %+v of\n%s", client.Name, path, counts, output)
			}
		}
	}
}
