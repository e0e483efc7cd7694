package cluster

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestNamespaceAdvice(t *testing.T) {
	all := map[string]string{
		"kernel.unprivileged_userns_clone":             "0",
		"user.max_user_namespaces":                     "0",
		"kernel.apparmor_restrict_unprivileged_userns": "1",
	}
	fine := map[string]string{
		"kernel.unprivileged_userns_clone":             "1",
		"user.max_user_namespaces":                     "15000",
		"kernel.apparmor_restrict_unprivileged_userns": "0",
	}
	for name, tc := range map[string]struct {
		set  map[string]string
		want []string // commands advised
	}{
		"everything forbids it": {set: all, want: []string{
			"kernel.unprivileged_userns_clone=1", "user.max_user_namespaces=15000", "kernel.apparmor_restrict_unprivileged_userns=0",
		}},
		"Ubuntu": {
			set:  map[string]string{"user.max_user_namespaces": "96365", "kernel.apparmor_restrict_unprivileged_userns": "1"},
			want: []string{"kernel.apparmor_restrict_unprivileged_userns=0"},
		},
		"nothing forbids it":      {set: fine},
		"kernel without settings": {},
	} {
		t.Run(name, func(t *testing.T) {
			advice := namespaceAdvice(func(name string) (string, bool) { v, ok := tc.set[name]; return v, ok })
			var got []string
			for line := range strings.Lines(advice) {
				if _, command, ok := strings.Cut(line, "sysctl -w "); ok {
					command, _, _ = strings.Cut(command, " ")
					got = append(got, command)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("advice (-want +got):\n%s\n%s", diff, advice)
			}
			if tc.want == nil && !strings.Contains(advice, "seccomp") {
				t.Errorf("it does not say what else it may be:\n%s", advice)
			}
		})
	}
}

func TestExplainNamespaceError(t *testing.T) {
	if err := explainNamespaceError(nil); err != nil {
		t.Error(err)
	}
	other := errors.New("disk full")
	if err := explainNamespaceError(other); err.Error() != other.Error() {
		t.Errorf("an error of another kind is changed: %v", err)
	}
	forbidden := fmt.Errorf("fork/exec: %w", unix.EPERM)
	err := explainNamespaceError(forbidden)
	if !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "does not let you") {
		t.Errorf("explained as %v", err)
	}
}

func TestInitEnvironment(t *testing.T) {
	got := initEnvironment([]string{
		"PATH=/bin", "HOME=/h", "HTTP_PROXY=http://proxy", "KUBECONFIG=/outside", "SECRET=x", "LANG=C", "TMPDIR=/t", "PATHS=/no",
	})
	if diff := cmp.Diff([]string{"PATH=/bin", "HOME=/h", "LANG=C", "TMPDIR=/t"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestInsideEnvironment(t *testing.T) {
	got := insideEnvironment(Layout{Dir: "/s"}, []string{
		"PATH=/bin", "https_proxy=x", "ALL_PROXY=x", "KUBECONFIG=/outside", "SANDBOX_STATE=/other", "EDITOR=vi",
	})
	want := []string{"EDITOR=vi", "PATH=/s/bin:/bin", "KUBECONFIG=/s/kubeconfig", "SANDBOX_STATE=/s"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAskDNS(t *testing.T) {
	for _, tc := range []struct{ given, want string }{
		{"", "\nhosts: files dns\n"},
		{
			"passwd: files systemd\nhosts:\t\tmymachines resolve [!UNAVAIL=return] files dns\nservices: db files",
			"passwd: files systemd\nservices: db files\nhosts: files dns\n",
		},
	} {
		if diff := cmp.Diff(tc.want, askDNS(tc.given)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tc.given, diff)
		}
	}
}
