package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The sources that are broken here: a module with a function, a program with it, and
// tests of both. TestLong waits for ever where sums are wrong.
var sources = map[string]string{
	".gitignore":     "/bin/\n",
	"go.mod":         "module example.com/sum\n\ngo 1.26\n",
	"sum.go":         "package sum\n\nfunc Sum(a, b int) int { return a + b }\n",
	"Makefile":       "build:\n\tgo build -o rollouts-plugin-kedify ./cmd\n\tmkdir -p bin && cp rollouts-plugin-kedify bin/interceptor\n",
	"cmd/main.go":    "package main\n\nimport \"example.com/sum\"\n\nfunc main() { print(sum.Sum(1, 2)) }\n",
	"sandbox/go.mod": "module example.com/sum/sandbox\n\ngo 1.26\n",
	"sandbox/e2e/programs_test.go": `package e2e

import (
	"os"
	"os/exec"
	"testing"
)

func TestPrograms(t *testing.T) {
	for _, variable := range []string{"PLUGIN", "INTERCEPTOR"} {
		if out, err := exec.Command(os.Getenv(variable)).CombinedOutput(); string(out) != "3" {
			t.Errorf("%s: %q, %v", variable, out, err)
		}
	}
}
`,
	"sum_test.go": `package sum

import (
	"os"
	"strconv"
	"testing"
)

func TestSum(t *testing.T) {
	if got := Sum(1, 2); got != 3 {
		t.Errorf("%d, want 3", got)
	}
}

func TestSumOfNothing(t *testing.T) {
	if got := Sum(0, 0); got != 0 {
		t.Errorf("%d, want 0", got)
	}
}

func TestSkipped(t *testing.T) {
	t.Skip("on this machine")
}

func TestFailing(t *testing.T) {
	t.Error("whatever Sum does")
}

func TestLong(t *testing.T) {
	if Sum(1, 1) == 2 {
		return
	}
	if err := os.WriteFile(os.Getenv("MUTANTS_TEST_PID"), []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
		t.Fatal(err)
	}
	select {}
}
`,
}

// endToEnd is a mutation of Sum that a test of the programs has to notice.
func endToEnd(name, expression string) mutation {
	m := sum(name, expression)
	m.Tests = map[string][]string{"sandbox/e2e": {"TestPrograms"}}
	return m
}

// sum is a mutation of Sum to an expression.
func sum(name, expression string, tests ...string) mutation {
	return mutation{Name: name, Breaks: "Sums are wrong.", File: "sum.go", Old: "a + b", New: expression, Tests: map[string][]string{".": tests}}
}

// repository returns a git repository with the sources, as a working tree.
func repository(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, text := range sources {
		write(t, filepath.Join(root, name), text)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}} {
		if out, err := exec.Command("git", append([]string{"-C", root}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return root
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// tryHere tries mutations, and returns what is printed.
func tryHere(ctx context.Context, root string, mutations ...mutation) (string, error) {
	var out bytes.Buffer
	err := try(ctx, root, mutations, regexp.MustCompile("."), &out)
	return out.String(), err
}

func verdicts(t *testing.T, root string) map[string]result {
	t.Helper()
	r, err := readResults(filepath.Join(root, "bin", "mutants", "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	return r.Mutations
}

func TestVerdicts(t *testing.T) {
	root := repository(t)
	outdated := sum("outdated", "a - b", "TestSum")
	outdated.Old = "a * b"
	tests := []struct {
		mutation mutation
		want     verdict
		says     string
	}{
		{sum("noticed", "a - b", "TestSum"), caught, ""},
		{sum("noticed-by-a-panic", "[]int{}[a]", "TestSum"), caught, ""},
		{endToEnd("noticed-end-to-end", "a - b"), caught, ""},
		{endToEnd("not-noticed-end-to-end", "b + a"), survived, "sandbox/e2e TestPrograms does not notice"},
		{endToEnd("does-not-build", "a + c"), notTried, "make build"},
		{sum("noticed-by-one-of-two", "a - b", "TestSum", "TestSumOfNothing"), survived, ". TestSumOfNothing does not notice"},
		{sum("does-not-compile", "a + c", "TestSum"), notTried, "does not compile"},
		{sum("is-no-go", "a +", "TestSum"), notTried, "makes no Go"},
		{sum("test-skipped", "a - b", "TestSkipped"), notTried, "did not run"},
		{sum("test-fails-always", "a - b", "TestFailing"), notTried, "fails without the mutation, too"},
		{sum("test-is-not-there", "a - b", "TestOther"), notTried, "there is no TestOther"},
		{sum("test-after-a-panic", "[]int{}[a]", "TestSum", "TestSumOfNothing"), notTried, ". TestSumOfNothing did not run"},
		{outdated, notTried, "occurs 0 times in sum.go"},
	}
	var all []mutation
	for _, tc := range tests {
		all = append(all, tc.mutation)
	}
	out, err := tryHere(t.Context(), root, all...)
	if err == nil || !strings.Contains(err.Error(), "10 of 13 mutations were not caught") {
		t.Errorf("error %v, want one that counts them", err)
	}
	results := verdicts(t, root)
	for _, tc := range tests {
		if got := results[tc.mutation.Name]; got.Verdict != tc.want || !strings.Contains(got.Reason, tc.says) || !strings.Contains(out, tc.says) {
			t.Errorf("%s is %s (%s), want %s, %q", tc.mutation.Name, got.Verdict, got.Reason, tc.want, tc.says)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
	for name, text := range sources {
		if now, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(now) != text {
			t.Errorf("the working tree's %s is changed: %v\n%s", name, err, now)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "bin", "mutants", "tree")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the copy of the sources is left: %v", err)
	}
}

// TestOnlyWhatIsNewIsTried: a mutation that was caught is tried again when the sources or
// the mutation change, not when documentation or other mutations do.
func TestOnlyWhatIsNewIsTried(t *testing.T) {
	root := repository(t)
	first, second := sum("first", "a - b", "TestSum"), sum("second", "a * b", "TestSum")
	run := func(want string, mutations ...mutation) {
		t.Helper()
		out, err := tryHere(t.Context(), root, mutations...)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%v; want to read %q in:\n%s", err, want, out)
		}
	}
	run("1 caught (0 of them by an earlier run)", first)
	run("1 caught (1 of them by an earlier run)", first)
	run("2 caught (1 of them by an earlier run)", first, second)
	write(t, filepath.Join(root, "README.md"), "# Sums\n")
	if out, err := exec.Command("git", "-C", root, "add", ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run("2 caught (2 of them by an earlier run)", first, second)
	run("2 caught (1 of them by an earlier run)", first, sum("second", "7", "TestSum", "TestSumOfNothing"))
	write(t, filepath.Join(root, "sum.go"), sources["sum.go"]+"\n// Changed, and not committed.\n")
	run("1 caught (0 of them by an earlier run)", first)
}

// TestInterrupted: an interrupt ends the tests that run, leaves no copy of the sources,
// and keeps the mutations that were caught; the next run goes on there.
func TestInterrupted(t *testing.T) {
	root := repository(t)
	file := filepath.Join(t.TempDir(), "pid")
	t.Setenv("MUTANTS_TEST_PID", file)
	first, second := sum("first", "a - b", "TestSum"), sum("second", "a - b", "TestLong")
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	type ended struct {
		out string
		err error
	}
	done := make(chan ended, 1)
	go func() {
		out, err := tryHere(ctx, root, first, second)
		done <- ended{out, err}
	}()
	pid := 0
	await(t, "a test that waits for ever", func() bool {
		text, _ := os.ReadFile(file)
		pid, _ = strconv.Atoi(string(text))
		return pid != 0
	})
	interrupt()
	got := <-done
	if !errors.Is(got.err, context.Canceled) || !strings.Contains(got.out, "1 caught (0 of them by an earlier run), 0 survived, 0 not tried, 1 left") {
		t.Errorf("%v, want an interrupted run; printed:\n%s", got.err, got.out)
	}
	await(t, fmt.Sprintf("the end of the test, process %d", pid), func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
	if _, err := os.Stat(filepath.Join(root, "bin", "mutants", "tree")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the copy of the sources is left: %v", err)
	}
	all := verdicts(t, root)
	if _, tried := all["second"]; tried || all["first"].Verdict != caught {
		t.Errorf("results after the interrupt: %+v, want the first as caught and no second", all)
	}
	second.New = "a * b" // TestSum notices this, and ends
	second.Tests = map[string][]string{".": {"TestSum"}}
	if out, err := tryHere(t.Context(), root, first, second); err != nil || !strings.Contains(out, "2 caught (1 of them by an earlier run)") {
		t.Errorf("%v; the run after should go on at the second:\n%s", err, out)
	}
}

// TestTwoAtOnce: a second run ends with an error that says why.
func TestTwoAtOnce(t *testing.T) {
	root := repository(t)
	dir := filepath.Join(root, "bin", "mutants")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	unlock, err := lock(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tryHere(t.Context(), root, sum("first", "a - b", "TestSum")); err == nil || !strings.Contains(err.Error(), "another `make mutants` runs") {
		t.Errorf("%v, want an error that says that another one runs", err)
	}
	unlock()
	if _, err := tryHere(t.Context(), root, sum("first", "a - b", "TestSum")); err != nil {
		t.Error(err)
	}
}

// await waits for a state, far longer than it takes on a machine that has other work.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 5 minutes: %s", what)
		}
	}
}
