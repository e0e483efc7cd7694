package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/traffic"
)

const (
	namespace = "rollouts-demo"
	name      = "rollouts-demo"

	// readingTime is how long the demo lets a person look before it types the
	// next command.
	readingTime = 3 * time.Second
	// startTime and actTime bound the waits for the first deployment, and for
	// one canary with its two pauses of 30 seconds.
	startTime = 2 * time.Minute
	actTime   = 4 * time.Minute

	// settleTime is how long a Rollout that has come to rest may still take to
	// be as it should.
	settleTime = 10 * time.Second

	redrawInterval = 250 * time.Millisecond

	// liveInterval is how often a log without a terminal has a line on them.
	liveInterval = 3 * time.Second
)

// acts are the canaries of the demo.
var acts = []Act{
	{Title: "a canary that is promoted", Image: "argoproj/rollouts-demo:yellow"},
	{Title: "a canary that is aborted", Image: "argoproj/rollouts-demo:green", AbortAt: 50},
}

// player plays the demo inside a sandbox.
type player struct {
	screen   *Screen
	proxy    Proxy
	root     string // of the repository, where the commands are run
	started  time.Time
	canary   Canary
	observed <-chan observation
	timeline Timeline
	// shown is what the last lines were about, next what is about to be done.
	shown    Seen
	next     string
	load     *traffic.Load // nil before the first request
	live     Live
	counted  int       // answers that live has
	lastLine time.Time // when a log has had a line on the requests
	// told holds the events that have been shown.
	told map[string]bool
}

func playInside(ctx context.Context, out *os.File, root string, proxy Proxy) (code int, err error) {
	config, err := cluster.RESTConfig()
	if err != nil {
		return 0, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return 0, err
	}
	p := &player{screen: NewScreen(out), proxy: proxy, root: root, started: time.Now(), told: make(map[string]bool)}
	defer func() { err = errors.Join(err, p.screen.Close()) }()
	watching, stop := context.WithCancel(ctx)
	defer stop()

	if err := p.deploy(watching, client); err != nil {
		return 0, err
	}
	if err := p.startRequests(ctx, client); err != nil {
		return 0, err
	}
	defer p.load.Stop()
	all := make([]played, 0, len(acts))
	for _, act := range acts {
		this, err := p.play(ctx, act)
		if err != nil {
			return 0, err
		}
		all = append(all, this)
	}
	outcomes := judgeActs(all, p.load.Stop(), proxy)
	if err := p.screen.Say(table(outcomes, proxy)...); err != nil {
		return 0, err
	}
	if slices.ContainsFunc(outcomes, func(o Outcome) bool { return !o.OK() }) {
		return 1, p.screen.Sayf(Bad, "\nNot everything was as asked.")
	}
	return 0, p.screen.Sayf(Good, "\nEverything was as asked, in %s.", time.Since(p.started).Round(time.Second))
}

// played is what was seen of an act.
type played struct {
	act       Act
	versions  Versions
	judgement Judgement
	// requests is where those begin that were sent during the act; the first act
	// has those before it as well.
	requests traffic.Mark
}

// judgeActs gives each act the requests that were sent from its beginning to
// that of the next.
func judgeActs(acts []played, answers []traffic.Answer, proxy Proxy) []Outcome {
	outcomes := make([]Outcome, len(acts))
	for i, a := range acts {
		begin, end := int(a.requests), len(answers)
		if i == 0 {
			begin = 0
		}
		if i+1 < len(acts) {
			end = int(acts[i+1].requests)
		}
		outcomes[i] = Outcome{a.act, a.judgement, JudgeRequests(a.judgement.Results, answers[begin:end], a.versions, proxy)}
	}
	return outcomes
}

// deploy applies the sample and waits until it is healthy.
func (p *player) deploy(ctx context.Context, client dynamic.Interface) error {
	if err := p.run(ctx, "kubectl", "create", "ns", namespace); err != nil {
		return err
	}
	if err := p.run(ctx, "kubectl", "-n", namespace, "apply", "-k", "examples/canary"); err != nil {
		return err
	}
	if p.proxy == Envoy {
		if err := p.run(ctx, "kubectl", "-n", namespace, "apply", "-k", "deploy/kedify-proxy"); err != nil {
			return err
		}
		if err := p.run(ctx, "kubectl", "-n", namespace, "rollout", "status", "deployment/kedify-proxy", "--timeout", startTime.String()); err != nil {
			return err
		}
	}
	p.observed = observe(ctx, client, namespace, name)
	err := p.until(ctx, startTime, func(seen Seen) (bool, error) {
		return seen.Phase == "Healthy" && seen.Promoted, nil
	})
	if errors.Is(err, errTooLong) {
		return fmt.Errorf("Rollout %s/%s does not become healthy: %w", namespace, name, err)
	}
	return err
}

// play sets an act's image, does what a person would, and judges what was seen.
func (p *player) play(ctx context.Context, act Act) (played, error) {
	p.next = ""
	this := played{act: act, requests: p.load.Mark(), versions: Versions{Old: p.live.Versions.New, New: colourOf(act.Image)}}
	p.live.Versions = this.versions
	if err := p.screen.Sayf(Bold, "\n%s", strings.ToUpper(act.Title[:1])+act.Title[1:]); err != nil {
		return this, err
	}
	p.timeline.Forget()
	expected := act.Expect(p.canary)
	if err := p.rollouts(ctx, "set", "image", name, name+"="+act.Image); err != nil {
		return this, err
	}
	done := make(map[doneAt]bool)
	var since, rested time.Time // when the next command became due, and when it all ended
	err := p.until(ctx, actTime, func(seen Seen) (bool, error) {
		this.judgement = Judge(expected, ofImage(p.timeline.Seen(), act.Image))
		if seen.Image != act.Image {
			return false, nil
		}
		if !ended(seen) {
			rested = time.Time{}
		} else if rested.IsZero() {
			rested = time.Now()
		}
		// At rest, what is not as asked will not become so; but what is still
		// on its way may.
		asAsked := this.judgement.OK() && p.enoughRequests(seen)
		if ended(seen) && (asAsked || time.Since(rested) > settleTime) {
			return true, nil
		}
		due := doneAt{act.Next(p.canary, seen), seen.Step}
		if due.command == Nothing || done[due] {
			since, p.next = time.Time{}, ""
			return false, nil
		}
		if since.IsZero() {
			since = time.Now()
		}
		if !p.enoughRequests(seen) {
			p.next = verbs[due.command] + " after some more requests"
			return false, nil
		}
		if left := readingTime - time.Since(since); left > 0 {
			p.next = fmt.Sprintf("%s in %s", verbs[due.command], left.Round(time.Second))
			return false, nil
		}
		done[due], p.next = true, ""
		return false, p.rollouts(ctx, verbs[due.command], name)
	})
	if errors.Is(err, errTooLong) {
		// The judgement says what is missing.
		return this, p.screen.Sayf(Bad, "%s", err)
	}
	if err != nil {
		return this, err
	}
	return this, p.sayRequests()
}

// doneAt is a command at a step: each is given once.
type doneAt struct {
	command Command
	step    int32
}

var verbs = map[Command]string{Promote: "promote", Abort: "abort"}

// ended says whether a Rollout has come to rest.
func ended(seen Seen) bool {
	return seen.Promoted && seen.Phase == "Healthy" || seen.Aborted && seen.Phase == "Degraded"
}

// ofImage leaves out what was seen before the Rollout had the image.
func ofImage(all []Seen, image string) []Seen {
	for i, seen := range all {
		if seen.Image == image {
			return all[i:]
		}
	}
	return nil
}

var errTooLong = errors.New("it takes too long")

// until shows what happens until done returns true, which is asked after each
// change and several times a second. It returns errTooLong when that takes
// longer than limit.
func (p *player) until(ctx context.Context, limit time.Duration, done func(Seen) (bool, error)) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	redraw := time.NewTicker(redrawInterval)
	defer redraw.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline.C:
			return fmt.Errorf("%w: more than %s", errTooLong, limit)
		case observed := <-p.observed:
			if err := p.countRequests(); err != nil {
				return err
			}
			if err := p.take(observed); err != nil {
				return err
			}
			// What is there already is taken in before a decision.
			if len(p.observed) > 0 {
				continue
			}
		case <-redraw.C:
			if err := p.countRequests(); err != nil {
				return err
			}
		}
		seen, ok := p.timeline.Last()
		if !ok {
			continue
		}
		finished, err := done(seen)
		if err != nil || finished {
			return err
		}
		if err := p.screen.Panel(panel(p.canary, seen, p.live, p.next, time.Now())); err != nil {
			return err
		}
	}
}

// take adds an observation to the timeline and tells what is new.
func (p *player) take(o observation) error {
	switch {
	case o.err != nil:
		return p.say(Bad, o.err.Error())
	case o.event != nil:
		return p.takeEvent(o.event)
	case o.split != nil:
		p.timeline.AddSplit(o.revision, o.at, *o.split)
	case o.rollout != nil:
		canary, err := canaryOf(o.rollout)
		if err != nil {
			return err
		}
		p.canary = canary
		status, current := statusOf(o.rollout)
		if !current {
			return nil
		}
		p.timeline.AddStatus(o.revision, o.at, status)
	}
	seen, ok := p.timeline.Last()
	if !ok {
		return nil
	}
	// How the requests were split is told before another split is.
	if p.load != nil && seen.Split != p.shown.Split && time.Since(p.lastLine) > liveInterval/4 {
		if err := p.sayRequests(); err != nil {
			return err
		}
	}
	for _, change := range changes(p.canary, p.shown, seen) {
		if err := p.say(Plain, change); err != nil {
			return err
		}
	}
	p.shown = seen
	return nil
}

// takeEvent tells of the Rollout's events, and of warnings about anything.
func (p *player) takeEvent(event *corev1.Event) error {
	about := event.InvolvedObject.Kind
	if about != "Rollout" && event.Type == corev1.EventTypeNormal {
		return nil
	}
	text := fmt.Sprintf("event       %s: %s", event.Reason, event.Message)
	if about != "Rollout" {
		text = fmt.Sprintf("event       %s %s: %s: %s", about, event.InvolvedObject.Name, event.Reason, event.Message)
	}
	// An event that happens again comes again, with a higher count. Of a warning
	// that is repeated with each retry once is enough.
	style, key := Dim, fmt.Sprintf("%s/%d", event.UID, event.Count)
	if event.Type != corev1.EventTypeNormal {
		style, key = Bad, text
	}
	if p.told[key] {
		return nil
	}
	p.told[key] = true
	return p.say(style, text)
}

// say writes a line with the time since the demo began.
func (p *player) say(style Style, text string) error {
	return p.screen.Sayf(style, "%7.1fs  %s", time.Since(p.started).Seconds(), text)
}

// rollouts runs `kubectl argo rollouts` as a person would type it.
func (p *player) rollouts(ctx context.Context, args ...string) error {
	return p.run(ctx, "kubectl", append([]string{"argo", "rollouts", "-n", namespace}, args...)...)
}

// run shows a command, runs it in the repository, and shows what it prints.
func (p *player) run(ctx context.Context, program string, args ...string) error {
	line := program + " " + strings.Join(args, " ")
	if err := p.screen.Sayf(Bold, "$ %s", line); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = p.root
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%s: %w\n%s", line, err, strings.TrimSpace(stdout.String()+stderr.String()))
	}
	for printed := range strings.Lines(stdout.String()) {
		if err := p.screen.Sayf(Plain, "%s", strings.TrimRight(printed, "\n")); err != nil {
			return err
		}
	}
	return nil
}
