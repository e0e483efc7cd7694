package lifecycle

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/build"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// nobody is the id of a user, and of a group, without any rights.
const nobody = 65534

// A sandbox is brought up, used from a shell and taken down without root: by the user
// nobody if root runs the test, otherwise by the user that runs it.
func TestRootless(t *testing.T) {
	uid, newOne := os.Geteuid(), newUser
	if uid == 0 {
		uid, newOne = nobody, newNobody
	}
	u := newOne(t)
	u.env = append(u.env, "SHELL=/bin/sh")
	u.must(t, "up", "--bare", "--name", "rootless")
	was := insideOf(t, u.dir("rootless"))
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", was.pid))
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("\nUid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d\n", uid); !strings.Contains(string(status), want) {
		t.Errorf("the sandbox does not run as %d:\n%s", uid, status)
	}

	script := "id -u\necho \"$KUBECONFIG\"\nkubectl get nodes --output name\nexit 3\n"
	want := outcome{code: 3, stdout: "0\n" + u.dir("rootless") + "/kubeconfig\nnode/sandbox\n"}
	got := u.runWithInput(t, script, "shell", "--name", "rootless")
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(outcome{})); diff != "" {
		t.Errorf("shell (-want +got):\n%s", diff)
	}

	u.must(t, "down", "--name", "rootless")
	nothingLeft(t, u.dir("rootless"), was)
	if _, err := os.Lstat(u.root()); !os.IsNotExist(err) {
		t.Errorf("%s is still there (%v)", u.root(), err)
	}
}

// newNobody returns a user that runs commands as nobody, which takes root. Root's files
// may be readable for root only, so the user has copies of its own: of the sandbox's
// sources, and of the cluster that is built of them. Its Go build cache is empty, like
// a new user's.
func newNobody(t *testing.T) user {
	t.Helper()
	root, err := build.FindRepository()
	if err != nil {
		t.Fatal(err)
	}
	kubernetes, err := cluster.Build(t.Context(), cluster.Options{Repository: root, Bare: true})
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.MkdirTemp("", "sandbox-nobody-") // t.TempDir is below one of root's
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(home); err != nil {
			t.Error(err)
		}
	})
	repository := filepath.Join(home, "repository")
	for from, to := range map[string]string{
		filepath.Join(root, "sandbox"): filepath.Join(repository, "sandbox"),
		kubernetes:                     filepath.Join(home, ".cache", "rollouts-sandbox", filepath.Base(kubernetes)),
	} {
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	err = filepath.WalkDir(home, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, nobody, nobody)
	})
	if err != nil {
		t.Fatal(err)
	}
	u := user{
		stateHome: filepath.Join(home, ".local", "state"),
		env:       []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")},
		workDir:   repository,
		as:        &syscall.Credential{Uid: nobody, Gid: nobody},
	}
	u.downAtEnd(t)
	return u
}
