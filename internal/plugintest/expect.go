package plugintest

import (
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"
)

// Succeed ends a test if its call has failed.
func Succeed(t testing.TB, err types.RpcError) {
	t.Helper()
	if err.HasError() {
		t.Fatalf("unexpected error: %s", err)
	}
}

// Fail fails a test if its call has not failed, or if the error lacks one of these words.
func Fail(t testing.TB, err types.RpcError, want ...string) {
	t.Helper()
	if !err.HasError() {
		t.Errorf("no error, want one with %q", want)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q, want one with %q", err, w)
		}
	}
}

// Eventually polls until a condition holds, and ends the test if it does not within a
// minute.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}
