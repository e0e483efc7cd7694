package demo

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// newPlayer returns a player with a screen on a file, and what has been written to it.
func newPlayer(t *testing.T) (*player, func() string) {
	t.Helper()
	screen, written := record(t)
	return &player{ctx: t.Context(), screen: screen, root: t.TempDir(), began: time.Now()}, written
}

func texts(lines []Line) string {
	var text strings.Builder
	for _, line := range lines {
		text.WriteString(strings.TrimRight(line.Text, " ") + "\n")
	}
	return text.String()
}

// A story fails, whichever way a helper has of saying that something is not as claimed.
func TestPlay(t *testing.T) {
	for name, tt := range map[string]struct {
		story func(*player)
		// want are parts of the table.
		want []string
		ok   bool
	}{
		"as claimed": {
			story: func(p *player) {
				p.check("it rains", func() { p.Logf("%d mm", 1); p.Logf("%d mm", 2) })
			},
			want: []string{"0.0s  it rains: 2 mm\n", "\nAs claimed, in 0s.\n"},
			ok:   true,
		},
		"nothing is claimed": {story: func(*player) {}},
		"an error": {
			story: func(p *player) {
				p.check("it rains", func() { p.Errorf("it %s", "snows") })
				p.check("it is cold", func() {})
			},
			want: []string{"✗           it rains: it snows\n", "✓", "it is cold\n", "Not everything was as claimed"},
		},
		"the end": {
			story: func(p *player) {
				p.check("it rains", func() { p.Fatal("it", "snows") })
				p.check("it is cold", func() {})
			},
			want: []string{"✗           it rains: it snows\n", "Not everything was as claimed"},
		},
		"outside of a check": {
			story: func(p *player) { p.run("false", "x") },
			want:  []string{"✗           the demo runs to its end: false x: exit status 1\n", "Not everything was as claimed"},
		},
		"in a clean-up": {
			story: func(p *player) {
				p.check("it rains", func() {})
				p.Cleanup(func() { p.Error("left behind") })
			},
			want: []string{"left behind", "Not everything was as claimed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := newPlayer(t)
			if ok := p.play(tt.story); ok != tt.ok {
				t.Errorf("as claimed: %t, want %t", ok, tt.ok)
			}
			table := texts(p.table())
			for _, want := range tt.want {
				if !strings.Contains(table, want) {
					t.Errorf("the table has no %q:\n%s", want, table)
				}
			}
			if name == "the end" && strings.Contains(table, "it is cold") {
				t.Errorf("the story goes on after its end:\n%s", table)
			}
		})
	}
}

// Clean-ups run in the reverse order, also after the end of a story.
func TestCleanUp(t *testing.T) {
	p, written := newPlayer(t)
	var done []string
	var dir string
	p.play(func(p *player) {
		dir = p.TempDir()
		p.Cleanup(func() { done = append(done, "first") })
		p.Cleanup(func() { done = append(done, "second") })
		p.check("it rains", func() {
			p.Logf("a cloud")
			p.Fatalf("it snows")
		})
	})
	if diff := cmp.Diff([]string{"second", "first"}, done); diff != "" {
		t.Errorf("clean-ups (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is there still: %v", dir, err)
	}
	if got := written(); !strings.Contains(got, "a cloud") || !strings.Contains(got, "it snows") {
		t.Errorf("the log of a failed check is not shown:\n%s", got)
	}
}

// A demo that is asked to end says nothing of what it did not see, and returns the error
// of its context.
func TestPlayInterrupted(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "screen"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	ctx, end := context.WithCancel(t.Context())
	_, err = playInside(ctx, Options{Out: file, Demo: Demo{play: func(p *player) {
		end()
		p.check("it rains", func() { p.Fatal(p.Context().Err()) })
	}}}, t.TempDir(), time.Now())
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	if text, err := os.ReadFile(file.Name()); err != nil || len(text) > 0 {
		t.Errorf("written: %q (%v), want nothing", text, err)
	}
}

func TestRun(t *testing.T) {
	p, written := newPlayer(t)
	p.run("seq", "50")
	if got := written(); !strings.HasPrefix(got, "$ seq 50\n1\n2\n") || !strings.HasSuffix(got, "\n40\n… and 10 lines more\n") {
		t.Errorf("shown:\n%s", got)
	}
	if got := p.ask("echo here"); got != "here\n" {
		t.Errorf("answer %q", got)
	}
}

func TestFind(t *testing.T) {
	for _, tt := range []struct{ router, proxy, want string }{
		{Kedify, "", ""}, {Kedify, Embedded, ""}, {Kedify, Envoy, ""}, {GatewayAPI, "", ""}, {Guide, "", ""}, {Steps, "", ""},
		{Kedify, "gateway", `there is no proxy "gateway"; there are embedded and envoy`},
		{GatewayAPI, Envoy, `proxy "envoy": only router kedify has a choice of proxies`},
		{Guide, Embedded, `proxy "embedded": only router kedify has a choice of proxies`},
		{"nginx", "", `there is no router "nginx"; there are kedify and gatewayapi`},
	} {
		demo, err := Find(tt.router, tt.proxy)
		switch {
		case tt.want == "" && (err != nil || demo.play == nil || len(demo.claimed()) == 0 || len(demo.addons) == 0):
			t.Errorf("router %q, proxy %q: %+v, %v", tt.router, tt.proxy, demo, err)
		case tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)):
			t.Errorf("router %q, proxy %q: error %v, want %s", tt.router, tt.proxy, err, tt.want)
		}
	}
}
