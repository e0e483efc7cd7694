package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// hack/kind.sh removes the cluster that it has made, after a look at what is wrong with
// it, and no other of that name.
func TestKindClusters(t *testing.T) {
	for name, tc := range map[string]struct {
		clusters string
		want     []string
	}{
		"of somebody else": {"kedify", []string{"get clusters"}},
		"of its own":       {"kind", []string{"get clusters", "create cluster", "events of the new one", "export logs", "delete cluster"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			// Stands for each program that the script calls, of which make fails.
			stub := `#!/bin/sh
case "${0##*/} $*" in
  *' get clusters') echo "$CLUSTERS"; echo get clusters >&3 ;;
  *' create cluster --name kedify '*) echo >"$KUBECONFIG"; echo create cluster >&3 ;;
  'make '*) exit 1 ;;
  'kubectl get events '*) [ -e "$KUBECONFIG" ] && echo events of the new one >&3 ;;
  *' export logs --name kedify '*) echo export logs >&3 ;;
  *' delete cluster --name kedify') echo delete cluster >&3 ;;
esac
`
			for _, program := range []string{"go", "kubectl", "docker", "make", "curl", "openssl"} {
				if err := os.WriteFile(filepath.Join(dir, program), []byte(stub), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			did, err := os.Create(filepath.Join(dir, "did"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = did.Close() }()
			cmd := exec.CommandContext(t.Context(), "../hack/kind.sh")
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "CLUSTERS="+tc.clusters)
			cmd.ExtraFiles = []*os.File{did}
			output, err := cmd.CombinedOutput()
			if err == nil {
				t.Error("it succeeds")
			}
			content, err := os.ReadFile(did.Name())
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.Join(tc.want, "\n") + "\n"; string(content) != want {
				t.Errorf("it did\n%swant\n%s\n%s", content, want, output)
			}
		})
	}
}
