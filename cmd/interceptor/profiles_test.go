package main

import (
	"fmt"
	"net"
	"net/http"
	"testing"
)

// Profiles are served where --profiling-bind-address says, and nowhere else.
func TestProfiles(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	_, of, _ := started(t, fmt.Sprintf("--profiling-bind-address=127.0.0.1:%d", port))
	for at, want := range map[int]int{port: http.StatusOK, of["admin-port"]: http.StatusNotFound, of["metrics-port"]: http.StatusNotFound} {
		if got := code(at, "/debug/pprof/goroutine?debug=1"); got != want {
			t.Errorf("port %d: %d, want %d", at, got, want)
		}
	}
}
