package demo

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// player plays a demo inside a sandbox. It is the test that the helpers of the
// end-to-end tests fail if what they look at is not as claimed, and has the methods
// that these call.
type player struct {
	testing.TB // nil: only a test can have its private method

	ctx    context.Context
	screen *Screen
	root   string // of the repository, where the commands are run
	began  time.Time
	// pictureFile is the file that gets a picture of the requests of two canaries; empty for none.
	pictureFile string

	checks []check
	// current is the check under way, and logs what the helpers have logged during it.
	current  *check
	logs     []string
	cleanups []func()
}

// check is one thing that the demo claims.
type check struct {
	claim string
	// at is when it was seen, since the demo began.
	at time.Duration
	// detail is what was seen in numbers.
	detail   string
	problems []string
}

func (c check) ok() bool { return len(c.problems) == 0 }

// play tells a story, cleans up after it, and returns whether all was as claimed.
func (p *player) play(story func(*player)) bool {
	ended := make(chan struct{})
	go func() { // of its own, which Fatal ends
		defer close(ended)
		defer func() {
			for len(p.cleanups) > 0 {
				last := p.cleanups[len(p.cleanups)-1]
				p.cleanups = p.cleanups[:len(p.cleanups)-1]
				last()
			}
		}()
		story(p)
	}()
	<-ended
	return len(p.checks) > 0 && !p.Failed()
}

// check looks whether something is as claimed. What see fails the player with is the
// claim's problem, and the last that it logs its detail.
func (p *player) check(claim string, see func()) {
	p.current, p.logs = &check{claim: claim}, nil
	defer func() {
		c := p.current
		c.at = time.Since(p.began)
		if c.ok() && c.detail == "" && len(p.logs) > 0 {
			c.detail = p.logs[len(p.logs)-1]
		}
		if !c.ok() {
			for _, line := range p.logs {
				p.say(Dim, "%s", line)
			}
		}
		p.checks, p.current = append(p.checks, *c), nil
	}()
	see()
}

// table shows each claim with the time at which it was seen, and in one sentence
// whether all was as claimed.
func (p *player) table() []Line {
	lines := []Line{{}}
	for _, c := range p.checks {
		if !c.ok() {
			lines = append(lines, Line{fmt.Sprintf("  ✗ %8s  %s: %s", "", c.claim, strings.Join(c.problems, "\n    ")), Bad})
			continue
		}
		text := fmt.Sprintf("  ✓ %7.1fs  %s", c.at.Seconds(), c.claim)
		if c.detail != "" {
			text += ": " + c.detail
		}
		lines = append(lines, Line{text, Good})
	}
	took := time.Since(p.began).Round(time.Second)
	if p.Failed() {
		return append(lines, Line{}, Line{fmt.Sprintf("Not everything was as claimed: see ✗ above (%s).", took), Bad})
	}
	return append(lines, Line{}, Line{fmt.Sprintf("As claimed, in %s.", took), Good})
}

// say writes a line with the time since the demo began.
func (p *player) say(style Style, format string, args ...any) {
	p.show(Line{fmt.Sprintf("%7.1fs  ", time.Since(p.began).Seconds()) + fmt.Sprintf(format, args...), style})
}

// show writes lines that stay. Without a screen there is nothing to show.
func (p *player) show(lines ...Line) {
	if err := p.screen.Say(lines...); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// run shows a command, runs it in the repository, and shows what it prints.
func (p *player) run(program string, args ...string) {
	line := program + " " + strings.Join(args, " ")
	p.show(Line{"$ " + line, Bold})
	cmd := exec.CommandContext(p.ctx, program, args...)
	cmd.Dir = p.root
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		p.Fatalf("%s: %v\n%s", line, err, strings.TrimSpace(stdout.String()+stderr.String()))
	}
	p.printed(stdout.String())
}

// mostPrinted is how many lines of an output are shown.
const mostPrinted = 40

// printed shows what a command has printed.
func (p *player) printed(text string) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for _, line := range lines[:min(len(lines), mostPrinted)] {
		p.show(Line{line, Plain})
	}
	if more := len(lines) - mostPrinted; more > 0 {
		p.show(Line{fmt.Sprintf("… and %d lines more", more), Dim})
	}
}

// ask repeats a command that looks at an object until it prints something.
func (p *player) ask(line string) string {
	var answer string
	e2etest.Eventually(p, e2etest.Patience, line, func(ctx context.Context) (err error) {
		answer, err = e2etest.TryShell(ctx, line)
		if err == nil && answer == "" {
			err = fmt.Errorf("it prints nothing")
		}
		return err
	})
	return answer
}

// inNamespace is a namespace that the demo's commands make. It ends with the sandbox.
func (p *player) inNamespace(of *e2etest.Cluster, name string) *e2etest.Namespace {
	return (&e2etest.Namespace{Cluster: of, Name: name}).With(p)
}

// The methods of a test.

// Name implements testing.TB.
func (p *player) Name() string { return ownName() }

// Helper implements testing.TB.
func (p *player) Helper() {}

// Context implements testing.TB.
func (p *player) Context() context.Context { return p.ctx }

// Cleanup implements testing.TB.
func (p *player) Cleanup(f func()) { p.cleanups = append(p.cleanups, f) }

// TempDir implements testing.TB.
func (p *player) TempDir() string {
	dir, err := os.MkdirTemp("", "demo-")
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			p.Error(err)
		}
	})
	return filepath.Clean(dir)
}

// Log implements testing.TB. As that of a test, it is shown if a check fails.
func (p *player) Log(args ...any) { p.logs = append(p.logs, strings.TrimSpace(fmt.Sprintln(args...))) }

// Logf implements testing.TB.
func (p *player) Logf(format string, args ...any) { p.Log(fmt.Sprintf(format, args...)) }

// Error implements testing.TB. Outside of a check it is a problem of its own.
func (p *player) Error(args ...any) {
	problem := strings.TrimSpace(fmt.Sprintln(args...))
	if p.ctx.Err() == nil { // otherwise nobody looks any more
		p.say(Bad, "%s", problem)
	}
	if p.current == nil {
		p.checks = append(p.checks, check{claim: "the demo runs to its end", problems: []string{problem}})
		return
	}
	p.current.problems = append(p.current.problems, problem)
}

// Errorf implements testing.TB.
func (p *player) Errorf(format string, args ...any) { p.Error(fmt.Sprintf(format, args...)) }

// Fatal implements testing.TB.
func (p *player) Fatal(args ...any) {
	p.Error(args...)
	runtime.Goexit()
}

// Fatalf implements testing.TB.
func (p *player) Fatalf(format string, args ...any) { p.Fatal(fmt.Sprintf(format, args...)) }

// Failed implements testing.TB.
func (p *player) Failed() bool {
	for _, c := range p.checks {
		if !c.ok() {
			return true
		}
	}
	return p.current != nil && !p.current.ok()
}
