package envoy

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/image"
)

// dynamic returns an ELF file that names a loader and holds nothing else.
func dynamic(t *testing.T, loader string) string {
	t.Helper()
	const headers = 64 + 56
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT),
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64,
	}
	text := loader + "\x00"
	segment := elf.Prog64{Type: uint32(elf.PT_INTERP), Off: headers, Filesz: uint64(len(text)), Memsz: uint64(len(text))}
	var content bytes.Buffer
	for _, part := range []any{header, segment, []byte(text)} {
		if err := binary.Write(&content, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return script(t, "program", content.String())
}

// script returns the path of a file that can be executed.
func script(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEnvoy(t *testing.T) {
	// The output of glibc's loader for Envoy on Debian 12.
	loader := script(t, "loader", `#!/bin/sh
[ "$1" = --list ] || exit 9
printf '\tlinux-vdso.so.1 (0x00007ffd1b5f2000)\n'
printf '\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f8efe620000)\n'
printf '\tlibc.so.6 => /usr/lib/libc.so.6 (0x00007f8efe42f000)\n'
printf '\t/lib64/ld-linux-x86-64.so.2 (0x00007f8f04b5b000)\n'
`)
	program := dynamic(t, loader)
	e, err := entry(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	var table image.Table
	if err := table.Add(e); err != nil {
		t.Fatal(err)
	}
	got, err := table.Resolve("docker.io/envoyproxy/envoy:v1.40.0")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"/usr/local/bin/envoy": program, loader: loader}
	for _, library := range []string{"/lib/x86_64-linux-gnu/libm.so.6", "/usr/lib/libc.so.6"} {
		want[library] = library
	}
	if diff := cmp.Diff(want, got.Files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	path := "LD_LIBRARY_PATH=/lib/x86_64-linux-gnu:" + filepath.Dir(loader) + ":/usr/lib"
	if diff := cmp.Diff([]string{path}, got.Env); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
}

func TestEnvoyThatDoesNotRunHere(t *testing.T) {
	for name, tc := range map[string]struct{ program, want string }{
		"missing":         {"/does/not/exist", "/does/not/exist"},
		"no program":      {script(t, "script", "#!/bin/sh\n"), "must be a Linux program"},
		"no such loader":  {dynamic(t, "/does/not/exist/ld.so"), "/does/not/exist/ld.so"},
		"an old glibc":    {dynamic(t, script(t, "old", "#!/bin/sh\necho \"version 'GLIBC_2.31' not found\" >&2\nexit 1\n")), "version 'GLIBC_2.31' not found"},
		"lacks a library": {dynamic(t, script(t, "lacks", "#!/bin/sh\necho 'librt.so.1 => not found'\n")), "librt.so.1 is not found"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := entry(t.Context(), tc.program)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "glibc 2.31 or later") {
				t.Errorf("%v; want an error with %q that says what is needed", err, tc.want)
			}
		})
	}
}

// A static program, as the test itself is, needs nothing.
func TestEnvoyStatic(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if loader, err := interpreter(self); err != nil || loader != "" {
		t.Skipf("this test is linked dynamically (%q, %v), as with the race detector", loader, err)
	}
	e, err := entry(t.Context(), self)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"/usr/local/bin/envoy": self}, e.Image.Files); diff != "" || e.Image.Env != nil {
		t.Errorf("files (-want +got):\n%s\nvariables: %v", diff, e.Image.Env)
	}
}
