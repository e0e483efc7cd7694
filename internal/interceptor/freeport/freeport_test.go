package freeport_test

import (
	"fmt"
	"net"
	"os/exec"
	"sync"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/freeport"
)

// A port is free although the process starts others all the time, as tests with Envoys do.
func TestPortsAreFreeWhileProcessesStart(t *testing.T) {
	done := make(chan struct{})
	var starting sync.WaitGroup
	for range 4 {
		starting.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					_ = exec.Command("true").Run()
				}
			}
		})
	}
	defer starting.Wait()
	defer close(done)
	for range 1000 {
		l, err := net.Listen("tcp", fmt.Sprint(":", freeport.Get(t)))
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
	}
}
