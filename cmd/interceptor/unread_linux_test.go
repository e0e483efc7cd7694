//go:build !race

package main

// The race detector takes many times the memory.

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/proxy"
)

// mostUnreadMB is the memory that 1,000 answers that nobody reads may take, in MB.
const mostUnreadMB = 200

// 1,000 answers that nobody reads, on four HTTP/2 connections, take little of an
// interceptor's memory, and others are served meanwhile.
func TestUnreadAnswersTakeLittleMemory(t *testing.T) {
	for name, protocol := range map[string]string{"http/1.1": "", "h2c": "kubernetes.io/h2c"} {
		t.Run(name, func(t *testing.T) {
			var sent atomic.Int64
			chunk := make([]byte, 16<<10)
			m := newMeasured(t, 2, protocol, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/endless" {
					ok(w, r)
					return
				}
				for {
					n, err := w.Write(chunk)
					if sent.Add(int64(n)); err != nil {
						return
					}
				}
			})
			before := m.memoryMB("VmRSS")
			var begun sync.WaitGroup
			for range 4 {
				client := neverReading(t)
				for range proxy.DefaultSettings().MaxStreams {
					begun.Go(func() { m.begin(client, "/endless", hostOf(0)) })
				}
			}
			begun.Wait()
			m.settled("the answers stand still", sent.Load)
			if taken := m.memoryMB("VmHWM") - before; taken > mostUnreadMB {
				t.Errorf("the answers take %.0f MB, want at most %d", taken, mostUnreadMB)
			} else {
				t.Logf("the answers take %.0f MB", taken)
			}
			for i := range 2 {
				if _, err := m.get(newClient(t, &http.Transport{}), m.ports["proxy-port"], "/", hostOf(i)); err != nil {
					t.Errorf("another request: %v", err)
				}
			}
		})
	}
}

// neverReading returns a client that sends all requests on one HTTP/2 connection, and
// reads nothing of an answer's body.
func neverReading(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 1}}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// begin sends a request, and returns once the header of its answer is there.
func (m *measured) begin(client *http.Client, path, host string) {
	ctx, cancel := context.WithCancel(context.Background())
	m.t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", m.ports["proxy-port"], path), nil)
	if err != nil {
		m.t.Error(err)
		return
	}
	request.Host = host
	timer := time.AfterFunc(4*patience, cancel)
	defer timer.Stop()
	response, err := client.Do(request)
	if err != nil {
		m.t.Error(err)
		return
	}
	m.t.Cleanup(func() { cancel(); _ = response.Body.Close() })
	if response.StatusCode != http.StatusOK {
		m.t.Errorf("%s%s is answered %s", host, path, response.Status)
	}
}

// settled waits until a number has not changed for two seconds.
func (m *measured) settled(what string, number func() int64) {
	m.t.Helper()
	last, since := number(), time.Now()
	m.eventually(what, func() bool {
		if now := number(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 2*time.Second
	})
}
