package cluster

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/build"
)

// DefaultName is the name of a sandbox that was given none. Each checkout of the
// repository has one of its own.
const DefaultName = "default"

// namePattern keeps names usable as a directory and as a Kubernetes label.
var namePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)

// CheckName returns an error unless name can name a sandbox: 1 to 40 lower-case
// letters, digits and dashes, with a letter or a digit at both ends.
func CheckName(name string) error {
	if !namePattern.MatchString(name) {
		return fmt.Errorf("sandbox name %q: must be 1 to 40 lower-case letters, digits and dashes, and start and end with a letter or a digit", name)
	}
	return nil
}

// Layout is the state directory of one sandbox and the place of each file in it.
type Layout struct {
	// Dir is the state directory, an absolute path.
	Dir string
}

// NewLayout returns the layout of the sandbox with the given name, or of the
// one in the directory state when that is not empty.
func NewLayout(name, state string) (Layout, error) {
	if state != "" {
		dir, err := filepath.Abs(state)
		if err != nil {
			return Layout{}, fmt.Errorf("state directory %q: %w", state, err)
		}
		return Layout{Dir: dir}, nil
	}
	if name == "" {
		name = DefaultName
	}
	if err := CheckName(name); err != nil {
		return Layout{}, err
	}
	root, err := stateRoot()
	if err != nil {
		return Layout{}, err
	}
	if name == DefaultName {
		name += "-" + checkout()
	}
	return Layout{Dir: filepath.Join(root, name)}, nil
}

// checkout tells this checkout of the repository from others.
func checkout() string {
	repository, err := build.FindRepository()
	if err != nil {
		return "elsewhere" // what needs the sources says so
	}
	if real, err := filepath.EvalSymlinks(repository); err == nil {
		repository = real // one checkout, by whichever path it is entered
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(repository)))[:8]
}

// stateRoot returns the directory that holds the sandboxes of this user.
func stateRoot() (string, error) {
	dir := os.Getenv("XDG_STATE_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("no place for the state of a sandbox: %w; set XDG_STATE_HOME or pass --state", err)
		}
		dir = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(dir, "rollouts-sandbox"), nil
}

// Kubeconfig is the administrator's kubeconfig.
func (l Layout) Kubeconfig() string { return filepath.Join(l.Dir, "kubeconfig") }

// Logs is the directory with one log file per component, and sandbox.log.
func (l Layout) Logs() string { return filepath.Join(l.Dir, "logs") }

// Log is the log file of a component.
func (l Layout) Log(component string) string { return filepath.Join(l.Logs(), component+".log") }

// Bin is the directory that commands in the sandbox have on their PATH.
func (l Layout) Bin() string { return filepath.Join(l.Dir, "bin") }

// Program is the sandbox's own copy of the sandbox command, so that rebuilding
// the original does not change a running sandbox.
func (l Layout) Program() string { return filepath.Join(l.Bin(), "sandbox") }

// programs is the directory of the programs that add-ons have for this sandbox
// alone.
func (l Layout) programs() string { return filepath.Join(l.Dir, "programs") }

// Releases is the directory that http://releases.sandbox/ serves.
func (l Layout) Releases() string { return filepath.Join(l.Dir, "releases") }

// PIDFile holds the process id of the sandbox's PID 1 as seen from outside.
func (l Layout) PIDFile() string { return filepath.Join(l.Dir, "pid") }

// ControlSocket is the unix socket of the sandbox's daemon.
func (l Layout) ControlSocket() string { return filepath.Join(l.Dir, "control.sock") }

// settings holds what `up` was asked for, for the daemon to read.
func (l Layout) settings() string { return filepath.Join(l.Dir, "settings.json") }

// instance identifies the running PID 1; see instance.
func (l Layout) instance() string { return filepath.Join(l.Dir, "instance.json") }

// marker says that the directory is a sandbox's and may be removed.
func (l Layout) marker() string { return filepath.Join(l.Dir, ".rollouts-sandbox") }

func (l Layout) pki(file string) string { return filepath.Join(l.Dir, "pki", file) }

func (l Layout) etcdData() string { return filepath.Join(l.Dir, "etcd") }

// work is the working directory of a component: some components write files into it.
func (l Layout) work(component string) string { return filepath.Join(l.Dir, "work", component) }

func (l Layout) etc(file string) string { return filepath.Join(l.Dir, "etc", file) }
