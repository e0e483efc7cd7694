package lifecycle

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// On a machine that lacks something, `up` says so, and what to change, before it builds
// anything. The test takes it away in a user namespace.
func TestUpRefused(t *testing.T) {
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Fatal("unshare is needed: install util-linux")
	}
	for name, tc := range map[string]struct {
		without string // commands of the shell that take it away; $prefix runs the program
		want    []string
	}{
		"user namespaces": {
			without: "echo 0 >/proc/sys/user/max_user_namespaces",
			want: []string{
				"does not let you create the namespaces", "user.max_user_namespaces=15000",
				"is 0: nobody may create user namespaces", "/etc/sysctl.d/",
			},
		},
		// As container runtimes do.
		"a /proc of its own": {
			without: "mount --bind -o ro /proc/sys /proc/sys",
			want:    []string{"refuses the sandbox a /proc of its own", "systempaths=unconfined", "unmask=ALL", "procMount: Unmasked"},
		},
		"a /proc that fits": {
			without: "prefix='unshare --pid --fork'",
			want:    []string{"/proc is another PID namespace's: process 1 is ", "mount -t proc proc /proc"},
		},
		"nsenter": {
			without: "PATH=",
			want:    []string{"nsenter is needed", "install util-linux"},
		},
		"programs in the cache": {
			without: "mount -t tmpfs -o noexec none /mnt; export XDG_CACHE_HOME=/mnt",
			want:    []string{"/mnt/rollouts-sandbox is on a file system that is mounted noexec", "XDG_CACHE_HOME"},
		},
		"programs in the state directory": {
			without: "mount -t tmpfs -o noexec none /mnt; export XDG_STATE_HOME=/mnt",
			want:    []string{"/mnt/rollouts-sandbox/refused is on a file system that is mounted noexec", "XDG_STATE_HOME"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUser(t)
			cache := t.TempDir()
			ctx, cancel := context.WithTimeout(t.Context(), commandTimeout)
			defer cancel()
			cmd := exec.CommandContext(ctx, unshare, "--user", "--map-root-user", "--mount", "sh", "-e", "-c",
				tc.without+"\nexec $prefix \"$0\" \"$@\"", program, "up", "--bare", "--name", "refused")
			cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+u.stateHome, "XDG_CACHE_HOME="+cache)
			output, err := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != 1 {
				t.Errorf("`up` ended with %d (%v), want 1", code, err)
			}
			for _, text := range tc.want {
				if !strings.Contains(string(output), text) {
					t.Errorf("it does not say %q", text)
				}
			}
			if strings.Contains(string(output), "building") {
				t.Error("it has begun to build")
			}
			if _, err := os.Lstat(u.root()); !os.IsNotExist(err) {
				t.Errorf("%s is still there (%v)", u.root(), err)
			}
			if t.Failed() {
				t.Logf("it says:\n%s", output)
			}
		})
	}
}
