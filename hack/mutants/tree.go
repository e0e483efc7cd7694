package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// copyTracked copies the files that git tracks in root to tree, with changes that
// are not committed, and returns a hash of all that mutations and tests depend on.
func copyTracked(ctx context.Context, root, tree string) (hash string, err error) {
	list, err := exec.CommandContext(ctx, "git", "-C", root, "ls-files", "-z").Output()
	if err != nil {
		return "", fmt.Errorf("git ls-files in %s: %w", root, err)
	}
	h := sha256.New()
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		content, err := copyFile(filepath.Join(root, name), filepath.Join(tree, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // removed, and not committed yet
		}
		if err != nil {
			return "", err
		}
		// Each mutation is hashed by itself (keyOf), and neither documentation nor this
		// program changes the result of a test.
		if !strings.HasPrefix(name, "hack/mutants/") && !strings.HasSuffix(name, ".md") {
			_, _ = fmt.Fprintf(h, "%s %d\n", name, len(content))
			_, _ = h.Write(content)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func copyFile(from, to string) (content []byte, err error) {
	info, err := os.Lstat(from)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file: only those are copied", from)
	}
	if content, err = os.ReadFile(from); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return nil, err
	}
	return content, os.WriteFile(to, content, info.Mode().Perm())
}

// keyOf returns a hash of a mutation and of the sources that it is made in.
func keyOf(sources string, m mutation) (string, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return "", err
	}
	hash := sha256.Sum256(bytes.Join([][]byte{[]byte(sources), text}, []byte("\n")))
	return hex.EncodeToString(hash[:]), nil
}
