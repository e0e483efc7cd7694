package build

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// keepUnused is how long an entry stays in the cache after its last use.
const keepUnused = 14 * 24 * time.Hour

// prune removes entries that were not used for keepUnused: each change of a go.mod
// makes a new entry of up to 250 MB. An entry being built or in use is young, and
// stays.
func prune(cache string, now time.Time) {
	entries, err := os.ReadDir(cache)
	if err != nil {
		return
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || now.Sub(info.ModTime()) < keepUnused {
			continue
		}
		path := filepath.Join(cache, entry.Name())
		key := strings.TrimSuffix(entry.Name(), ".partial")
		if !entry.IsDir() || !isKey(key) || !unlocked(filepath.Join(cache, key+".lock")) {
			continue
		}
		// The version file goes first: an entry without it is not used, so that a
		// removal that is cut short leaves none that looks whole.
		_ = os.Remove(filepath.Join(path, versionFile))
		_ = os.RemoveAll(path)
		_ = os.Remove(filepath.Join(cache, key+".lock"))
	}
}

// unlocked says whether no process holds the lock at path.
func unlocked(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer func() { _ = f.Close() }()
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}
