package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/image"
)

// settings is what a sandbox was brought up with, kept for its daemon.
type settings struct {
	Name string `json:"name"`
	// Program is the multi-call binary of the cluster's components.
	Program string `json:"program"`
	// Kubernetes is the release of these components.
	Kubernetes string `json:"kubernetes"`
	// Deploy is the repository's deploy directory.
	Deploy string `json:"deploy"`
	// Addons are in the order in which they come up.
	Addons []preparedAddon `json:"addons,omitempty"`
}

// preparedAddon is an add-on with what it has prepared.
type preparedAddon struct {
	Name    string        `json:"name"`
	Version string        `json:"version,omitempty"`
	Paths   addon.Paths   `json:"paths,omitempty"`
	Images  []image.Entry `json:"images,omitempty"`
}

func (s settings) save(l Layout) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(l.settings(), append(content, '\n'), 0o644)
}

func loadSettings(l Layout) (settings, error) {
	var s settings
	content, err := os.ReadFile(l.settings())
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(content, &s); err != nil {
		return s, fmt.Errorf("%s: %w", l.settings(), err)
	}
	return s, nil
}

// lockState takes the lock that keeps two commands from changing one sandbox
// at a time. It is on the directory itself, so that no file is left behind.
func lockState(l Layout) (release func(), err error) {
	f, err := os.Open(l.Dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("another command is bringing the sandbox in %s up or down; wait for it to end", l.Dir)
		}
		return nil, fmt.Errorf("locking %s: %w", l.Dir, err)
	}
	return func() { _ = f.Close() }, nil
}

// claimState makes the state directory, and marks it as a sandbox's. It refuses a
// directory that holds anything else, since `down` removes it.
func claimState(l Layout) error {
	entries, err := os.ReadDir(l.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("state directory: %w", err)
	case len(entries) > 0 && !isState(l):
		return fmt.Errorf("state directory %s is not empty and not a sandbox's: choose another one with --state", l.Dir)
	}
	if err := os.MkdirAll(l.Dir, 0o755); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	return os.WriteFile(l.marker(), nil, 0o644)
}

// isState says whether the directory was made by claimState.
func isState(l Layout) bool {
	_, err := os.Lstat(l.marker())
	return err == nil
}

// removeState removes the state directory, and the directory of this user's
// sandboxes when that was the last one.
func removeState(l Layout) error {
	if !isState(l) {
		if _, err := os.Lstat(l.Dir); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("%s is not a sandbox's state directory; not removed", l.Dir)
	}
	// The marker goes last: a removal that is cut short can then be completed.
	err := emptyState(l)
	if err == nil {
		err = os.RemoveAll(l.Dir)
	}
	if err != nil {
		return fmt.Errorf("removing the state directory: %w", err)
	}
	if root, err := stateRoot(); err == nil && filepath.Dir(l.Dir) == root {
		_ = os.Remove(root) // fails while it holds another sandbox
	}
	return nil
}

// emptyState removes everything in the state directory but its marker.
func emptyState(l Layout) error {
	entries, err := os.ReadDir(l.Dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		path := filepath.Join(l.Dir, entry.Name())
		if path == l.marker() {
			continue
		}
		if err := removeAll(path); err != nil {
			return err
		}
	}
	return nil
}

// removeAll removes a file or a tree, also one in which a pod has taken the
// write permission from its own directories.
func removeAll(path string) error {
	err := os.RemoveAll(path)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	// Errors are ignored here: the second attempt at the removal reports them, and
	// better.
	_ = filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(path)
}
