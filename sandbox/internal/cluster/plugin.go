package cluster

import (
	"debug/elf"
	"fmt"
	"runtime"
)

// machines maps an architecture of Go to that of an ELF file.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// checkProgram refuses a program that no container could start; what names it,
// as in "plugin". Its image holds nothing but programs, so that a dynamically
// linked one fails there with a "no such file" that means the missing linker.
func checkProgram(what, path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s %s: must be a Linux program: %w", what, path, err)
	}
	defer func() { _ = f.Close() }()
	if want, ok := machines[runtime.GOARCH]; ok && f.Machine != want {
		return fmt.Errorf("%s %s: is for %s, this machine is %s: build it with GOARCH=%[4]s", what, path, f.Machine, runtime.GOARCH)
	}
	for _, segment := range f.Progs {
		if segment.Type == elf.PT_INTERP {
			return fmt.Errorf("%s %s: is dynamically linked, and its image has no libraries: build it with CGO_ENABLED=0", what, path)
		}
	}
	return nil
}
