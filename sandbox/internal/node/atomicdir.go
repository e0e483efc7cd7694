package node

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// dataLink is the link in a volume to the directory that holds its present files.
const dataLink = "..data"

// writePayload makes dir hold content. All files change at the same moment, as
// programs that watch a volume expect: the files are links through "..data", and
// only that link is replaced.
func writePayload(dir string, content payload) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("volume: %w", err)
	}
	old, err := os.Readlink(filepath.Join(dir, dataLink))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("volume: %w", err)
	}
	fresh, err := os.MkdirTemp(dir, ".."+time.Now().UTC().Format("2006_01_02_15_04_05.")+"*")
	if err != nil {
		return fmt.Errorf("volume: %w", err)
	}
	if err := errors.Join(os.Chmod(fresh, 0o755), fillDir(fresh, content)); err != nil {
		return errors.Join(fmt.Errorf("volume: %w", err), os.RemoveAll(fresh))
	}
	next := filepath.Join(dir, "..data_tmp")
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("volume: %w", err)
	}
	if err := os.Symlink(filepath.Base(fresh), next); err != nil {
		return fmt.Errorf("volume: %w", err)
	}
	if err := os.Rename(next, filepath.Join(dir, dataLink)); err != nil {
		return fmt.Errorf("volume: %w", err)
	}
	if err := linkTop(dir, content); err != nil {
		return fmt.Errorf("volume: %w", err)
	}
	if old != "" {
		if err := os.RemoveAll(filepath.Join(dir, old)); err != nil {
			return fmt.Errorf("volume: %w", err)
		}
	}
	return nil
}

func fillDir(dir string, content payload) error {
	for name, file := range content {
		full := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(full, []byte(file.data), 0o600); err != nil {
			return err
		}
		if err := os.Chmod(full, fs.FileMode(file.mode)); err != nil {
			return err
		}
	}
	return nil
}

// linkTop makes the links at the top of the volume match content.
func linkTop(dir string, content payload) error {
	want := map[string]bool{}
	for name := range content {
		top, _, _ := strings.Cut(name, "/")
		want[top] = true
	}
	for _, top := range slices.Sorted(maps.Keys(want)) {
		err := os.Symlink(filepath.Join(dataLink, top), filepath.Join(dir, top))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "..") && !want[e.Name()] {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
