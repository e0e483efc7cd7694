package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

func TestResolveUpFlags(t *testing.T) {
	for name, tc := range map[string]struct {
		which    which
		releases []string
		wantName string
		want     map[string]string
		err      string
	}{
		"default":         {which: which{name: "default"}, wantName: "default", want: map[string]string{}},
		"state, no name":  {which: which{name: "default", state: "/s"}, want: map[string]string{}},
		"state and name":  {which: which{name: "x", state: "/s"}, wantName: "x", want: map[string]string{}},
		"releases":        {which: which{name: "x"}, releases: []string{"a=/p", "b=q=r"}, wantName: "x", want: map[string]string{"a": "/p", "b": "q=r"}},
		"release, no =":   {which: which{name: "x"}, releases: []string{"a"}, err: `--release "a"`},
		"release, empty":  {which: which{name: "x"}, releases: []string{"=b"}, err: `--release "=b"`},
		"release to none": {which: which{name: "x"}, releases: []string{"a="}, err: "NAME=PATH"},
	} {
		t.Run(name, func(t *testing.T) {
			f := upFlags{releases: tc.releases}
			got, err := f.resolve(&tc.which)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.Name != tc.wantName || got.State != tc.which.state || got.Program == "" {
				t.Errorf("options: %+v", got)
			}
			if diff := cmp.Diff(tc.want, got.Releases); diff != "" {
				t.Errorf("releases (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPrintStatus(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for name, s := range map[string]*cluster.Status{
		"up": {
			Name: "x", Dir: "/s", Phase: cluster.PhaseUp, Since: now.Add(-75 * time.Second), Node: "Ready",
			Kubernetes: "v1.34.10", Addons: []cluster.AddonStatus{{Name: "argo-rollouts", Version: "v1.10.1"}, {Name: "plugin"}},
			Components: []cluster.ComponentStatus{
				{Name: "etcd", State: cluster.StateRunning, PID: 7, Since: now.Add(-75 * time.Second)},
				{Name: "kube-apiserver", State: cluster.StateStopped},
				{Name: "kube-scheduler", State: cluster.StateRunning, PID: 30, Since: now.Add(-2 * time.Second), Deaths: 1, LastDeath: "ended with exit status 2", LastLog: "    panic"},
			},
			Pods: []cluster.PodStatus{
				{Namespace: "default", Name: "a", State: "Running", IP: "10.244.1.1", Ready: true},
				{Namespace: "default", Name: "b", State: "ErrImagePull"},
			},
		},
		"failed": {
			Name: "x", Dir: "/s", Phase: cluster.PhaseFailed, Error: "etcd has no space", Kubernetes: "v1.34.10", Since: now, Node: "unknown",
			PodsError: "connection refused",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got strings.Builder
			if err := printStatus(&got, s, now); err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", "status-"+name+".txt")
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", golden, diff)
			}
		})
	}
}

// Only a command that has cleaned up reports what is left behind.
func TestReport(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		code int
		want string
	}{
		"success":          {},
		"exit code":        {err: exitError(42), code: 42},
		"failure":          {err: errors.New("no space"), code: 1, want: "sandbox: no space\n"},
		"interrupted up":   {err: fmt.Errorf("demo: %w", cluster.ErrInterrupted), code: 130, want: "sandbox: demo: interrupted; nothing is left behind\n"},
		"interrupted else": {err: fmt.Errorf("asking for the status: %w", context.Canceled), code: 1, want: "sandbox: asking for the status: context canceled\n"},
		"teardown failed":  {err: errors.Join(context.Canceled, errors.New("process 7 does not end")), code: 1, want: "sandbox: context canceled\nprocess 7 does not end\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var said strings.Builder
			if code := report(&said, tc.err); code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if diff := cmp.Diff(tc.want, said.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhichFlag(t *testing.T) {
	for want, w := range map[string]which{
		"":            {name: "default"},
		" --name two": {name: "two"},
		" --state /s": {name: "two", state: "/s"},
	} {
		if got := w.flag(); got != want {
			t.Errorf("%+v: %q, want %q", w, got, want)
		}
	}
}

// Whatever ~/.bashrc does to PATH, the sandbox's programs come first.
func TestInteractiveBash(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash here")
	}
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, ".bashrc"), []byte("PATH=/usr/bin:/bin\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	l := cluster.Layout{Dir: t.TempDir()}
	args, err := interactive(l, bash)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = []string{"HOME=" + home, "PATH=/elsewhere"}
	cmd.Stdin = strings.NewReader("echo \"$PATH\"\n")
	output, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if want := l.Bin() + ":/usr/bin:/bin\n"; string(output) != want {
		t.Errorf("PATH is %q, want %q", output, want)
	}

	args, err = interactive(l, "/bin/dash")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/bin/dash"}, args); diff != "" {
		t.Errorf("another shell (-want +got):\n%s", diff)
	}
}
