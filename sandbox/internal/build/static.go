package build

import (
	"debug/elf"
	"fmt"
	"runtime"
)

// machines maps an architecture of Go to that of an ELF file.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// CheckStatic returns an error unless the file is a statically linked program for
// this machine. In an image that holds nothing but programs, a dynamically linked one
// fails with a "no such file" that means the missing dynamic linker.
func CheckStatic(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s: must be a Linux program: %w", path, err)
	}
	defer func() { _ = f.Close() }()
	if want, ok := machines[runtime.GOARCH]; ok && f.Machine != want {
		return fmt.Errorf("%s: is for %s, this machine is %s: build it with GOARCH=%[3]s", path, f.Machine, runtime.GOARCH)
	}
	for _, segment := range f.Progs {
		if segment.Type == elf.PT_INTERP {
			return fmt.Errorf("%s: is dynamically linked, and its image has no libraries: build it with CGO_ENABLED=0", path)
		}
	}
	return nil
}
