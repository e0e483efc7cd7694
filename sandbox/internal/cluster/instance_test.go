package cluster

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestParseStartTime(t *testing.T) {
	const tail = " 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1000 20"
	for name, tc := range map[string]struct {
		line string
		want uint64
		bad  bool
	}{
		"plain":                {line: "12 (cat) S" + tail, want: 987654},
		"spaces, parentheses":  {line: "12 (a) S (b c) Z" + tail, want: 987654},
		"newline at the end":   {line: "12 (cat) R" + tail + "\n", want: 987654},
		"no name":              {line: "12 cat S" + tail, bad: true},
		"too short":            {line: "12 (cat) S 1 2 3", bad: true},
		"start is no number":   {line: "12 (cat) S 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 x 1", bad: true},
		"empty":                {line: "", bad: true},
		"only the parenthesis": {line: ")", bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseStartTime(tc.line)
			if (err != nil) != tc.bad || got != tc.want {
				t.Errorf("parseStartTime(%q) = %d, %v; want %d", tc.line, got, err, tc.want)
			}
		})
	}
}

func FuzzParseStartTime(f *testing.F) {
	own, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(own))
	f.Add("1 (a) (b) S 1")
	f.Fuzz(func(t *testing.T, line string) {
		if got, err := parseStartTime(line); err != nil && got != 0 {
			t.Errorf("parseStartTime(%q) = %d besides the error %v", line, got, err)
		}
	})
}

// sleeper starts a process that would live for long.
func sleeper(t *testing.T) (*exec.Cmd, instance) {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	i, err := identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return cmd, i
}

func TestInstanceIsKilled(t *testing.T) {
	_, i := sleeper(t)
	if running, err := i.running(); err != nil || !running {
		t.Fatalf("running: %v, %v", running, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// It stays a zombie until its parent, this test, waits for it. kill takes it for
	// gone.
	if err := i.kill(ctx); err != nil {
		t.Fatal(err)
	}
	if running, err := i.running(); err != nil || running {
		t.Errorf("after kill, running: %v, %v", running, err)
	}
	if err := i.kill(ctx); err != nil {
		t.Errorf("killed again: %v", err)
	}
}

// A recorded process id that now belongs to another process is left alone.
func TestForeignProcessIsNotKilled(t *testing.T) {
	_, real := sleeper(t)
	earlier, otherBoot := real, real
	earlier.Start--
	otherBoot.Boot = "another"
	for name, i := range map[string]instance{"started earlier": earlier, "before a reboot": otherBoot} {
		if running, err := i.running(); err != nil || running {
			t.Errorf("%s: running: %v, %v", name, running, err)
		}
		if err := i.kill(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if running, err := real.running(); err != nil || !running {
		t.Errorf("the process was killed: %v, %v", running, err)
	}
}

func TestInstanceIsReadAsWritten(t *testing.T) {
	l := Layout{Dir: t.TempDir()}
	if _, err := loadInstance(l); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	want := instance{PID: 17, Start: 12345678901, Boot: "b"}
	if err := want.save(l); err != nil {
		t.Fatal(err)
	}
	if got, err := loadInstance(l); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if pid, err := os.ReadFile(l.PIDFile()); err != nil || string(pid) != "17\n" {
		t.Errorf("pid file: %q, %v", pid, err)
	}
}
