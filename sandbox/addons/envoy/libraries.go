package envoy

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// loaderTimeout bounds one run of a program's loader.
const loaderTimeout = 10 * time.Second

// libraries returns the absolute paths of the files that a program needs: its
// loader, which its ELF header names, and the shared libraries that the loader
// finds for it on this machine. A static program needs nothing. The error says what
// this machine lacks.
func libraries(ctx context.Context, program string) ([]string, error) {
	loader, err := interpreter(program)
	if err != nil || loader == "" {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, loaderTimeout)
	defer cancel()
	// As ldd does, but without a shell: the loader lists the libraries that it
	// would load.
	output, err := exec.CommandContext(ctx, loader, "--list", program).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) && len(exit.Stderr) > 0 {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		return nil, fmt.Errorf("%s does not run on this machine: %s --list: %w", program, loader, err)
	}
	found, err := listed(string(output))
	if err != nil {
		return nil, fmt.Errorf("%s does not run on this machine: %w", program, err)
	}
	return append(found, loader), nil
}

// interpreter returns the loader that a program names, or "" for a static one.
func interpreter(program string) (string, error) {
	f, err := elf.Open(program)
	if err != nil {
		return "", fmt.Errorf("%s: must be a Linux program: %w", program, err)
	}
	defer func() { _ = f.Close() }()
	for _, segment := range f.Progs {
		if segment.Type != elf.PT_INTERP {
			continue
		}
		text, err := io.ReadAll(segment.Open())
		if err != nil {
			return "", fmt.Errorf("%s: its loader: %w", program, err)
		}
		return strings.TrimRight(string(text), "\x00"), nil
	}
	return "", nil
}

// listed reads the paths in the output of a loader's --list, lines such as
//
//	libm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f…)
//
// The line of the kernel's own library (linux-vdso.so.1) has no path, and the
// loader's line has no arrow.
func listed(output string) ([]string, error) {
	var paths []string
	for line := range strings.Lines(output) {
		name, where, ok := strings.Cut(strings.TrimSpace(line), " => ")
		if !ok {
			continue
		}
		path, _, _ := strings.Cut(where, " (")
		if !strings.HasPrefix(path, "/") {
			return nil, fmt.Errorf("its library %s is %s", name, where)
		}
		paths = append(paths, path)
	}
	return paths, nil
}
