package proxyworld

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestReadsWhatWrkPrints(t *testing.T) {
	const output = `Running 1s test @ http://10.244.0.1:18080/cart?id=1
  1 threads and 64 connections
  Latency Distribution
     50%  950.00us
     75%   28.37ms
     90%   91.97ms
     99%    1.02s 
  47312 requests in 2.07s, 5.32MB read
Requests/sec:  22855.55
Transfer/sec:      2.57MB
`
	var r Result
	if err := r.read(output); err != nil || r.Rate != 22855.55 || r.P50 != 950*time.Microsecond || r.P99 != 1020*time.Millisecond {
		t.Errorf("%+v, %v", r, err)
	}
	if err := r.read(strings.Replace(output, "99%", "98%", 1)); err == nil {
		t.Error("no error where it does not say how long requests took")
	}
}

// An application answers requests of a client, and counts them.
func TestApplication(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	application := serve("canary", listener)
	for range 3 {
		response, err := http.Get("http://" + listener.Addr().String() + "/cart?id=1")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || string(body) != "canary" {
			t.Errorf("the answer is %q, %v", body, err)
		}
	}
	if got := application.requests.Load(); got != 3 {
		t.Errorf("%d requests are counted, not 3", got)
	}
}
