package build

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// program returns the smallest ELF file with one segment.
func program(t *testing.T, machine elf.Machine, segment elf.ProgType) string {
	t.Helper()
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT),
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64,
	}
	var content bytes.Buffer
	for _, part := range []any{header, elf.Prog64{Type: uint32(segment)}} {
		if err := binary.Write(&content, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "plugin")
	if err := os.WriteFile(path, content.Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCheckStatic(t *testing.T) {
	here, ok := machines[runtime.GOARCH]
	if !ok {
		t.Skipf("no ELF machine known for %s", runtime.GOARCH)
	}
	other := elf.EM_X86_64
	if here == other {
		other = elf.EM_AARCH64
	}
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ path, err string }{
		"static":           {path: program(t, here, elf.PT_LOAD)},
		"dynamic":          {path: program(t, here, elf.PT_INTERP), err: "CGO_ENABLED=0"},
		"of other machine": {path: program(t, other, elf.PT_LOAD), err: "GOARCH=" + runtime.GOARCH},
		"a script":         {path: script, err: "must be a Linux program"},
		"missing":          {path: "/does/not/exist", err: "/does/not/exist"},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckStatic(tc.path)
			if (err == nil) != (tc.err == "") || (err != nil && !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("%v, want %q", err, tc.err)
			}
		})
	}
}
