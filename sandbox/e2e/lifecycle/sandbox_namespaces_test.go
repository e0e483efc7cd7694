package lifecycle

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Where user namespaces are forbidden, `up` says so, and what to set. The test forbids
// them by running `up` in a user namespace, in which it may lower the limit.
func TestUserNamespacesForbidden(t *testing.T) {
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Fatal("unshare is needed: install util-linux")
	}
	u := newUser(t)
	ctx, cancel := context.WithTimeout(t.Context(), commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, unshare, "--user", "--map-root-user", "sh", "-c",
		`echo 0 >/proc/sys/user/max_user_namespaces && exec "$0" "$@"`, program, "up", "--bare", "--name", "forbidden")
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+u.stateHome)
	output, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("`up` ended with %d (%v), want 1", code, err)
	}
	for _, text := range []string{
		"does not let you create the namespaces",
		"user.max_user_namespaces=15000",
		"is 0: nobody may create user namespaces",
		"/etc/sysctl.d/",
	} {
		if !strings.Contains(string(output), text) {
			t.Errorf("it does not say %q", text)
		}
	}
	if _, err := os.Lstat(u.root()); !os.IsNotExist(err) {
		t.Errorf("%s is still there (%v)", u.root(), err)
	}
	if t.Failed() {
		t.Logf("it says:\n%s", output)
	}
}
