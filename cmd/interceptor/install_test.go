package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestInstall(t *testing.T) {
	dir := t.TempDir()
	program, to := filepath.Join(dir, "program"), filepath.Join(dir, "copy")
	if err := os.WriteFile(program, []byte("new"), 0o500); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, []byte("an older copy"), 0o555); err != nil {
		t.Fatal(err)
	}
	if err := install(program, to); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(to); err != nil || string(content) != "new" {
		t.Errorf("the copy holds %q (%v)", content, err)
	}
	if info, err := os.Stat(to); err != nil || info.Mode() != 0o755 {
		t.Errorf("the copy is %v (%v), want executable for all", info.Mode(), err)
	}

	if err := install(filepath.Join(dir, "missing"), to); err == nil {
		t.Error("a program that is not there was installed")
	}
	if err := install(program, filepath.Join(dir, "missing", "copy")); err == nil {
		t.Error("installed into a directory that is not there")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("beside them: %v (%v)", entries, err)
	}
}
