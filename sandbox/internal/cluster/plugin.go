package cluster

import (
	"debug/elf"
	"fmt"
	"runtime"
)

// machines maps an architecture of Go to that of an ELF file.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// checkPlugin refuses a plugin that the controller could not start. Its image
// holds nothing but the controller, so that a dynamically linked one fails
// there with a "no such file" that means the missing linker.
func checkPlugin(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("plugin %s: must be a Linux program: %w", path, err)
	}
	defer func() { _ = f.Close() }()
	if want, ok := machines[runtime.GOARCH]; ok && f.Machine != want {
		return fmt.Errorf("plugin %s: is for %s, this machine is %s: build it with GOARCH=%[3]s", path, f.Machine, runtime.GOARCH)
	}
	for _, segment := range f.Progs {
		if segment.Type == elf.PT_INTERP {
			return fmt.Errorf("plugin %s: is dynamically linked, and the controller's image has no libraries: build it with CGO_ENABLED=0", path)
		}
	}
	return nil
}
