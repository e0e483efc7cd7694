package cluster

import (
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// TestMain sets the log of controller-runtime, which complains without one.
func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	m.Run()
}
