package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/sourceguide"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
)

const (
	// startTime and actTime bound the waits for the first deployment, and for
	// one canary; the guide's has pauses of a minute, and commands in between.
	startTime = 2 * time.Minute
	actTime   = 5 * time.Minute

	// settleTime is how long a Rollout that has come to rest may still take to reach
	// the expected state.
	settleTime = 10 * time.Second

	redrawInterval = 250 * time.Millisecond

	// liveInterval is how often a log without a terminal has a line on the requests.
	liveInterval = 3 * time.Second
)

// claim is what the demo sets out to show.
func (r Router) claim() []Line {
	switch r {
	case Guide:
		return guideClaim
	case Steps:
		return stepsClaim
	}
	return []Line{
		{fmt.Sprintf("To be proved, under %d requests a second: a new version takes over step by", rate), Bold},
		{"step and is promoted; one that fails 15 in 100 of its requests is aborted by", Bold},
		{"its background analysis; and no request fails but that bad version's own.", Bold},
	}
}

// player plays the demo inside a sandbox.
type player struct {
	screen   *Screen
	router   Router
	setting  setting
	proxy    Proxy
	root     string // of the repository, where the commands are run
	started  time.Time
	canary   Canary
	observed <-chan observation
	timeline Timeline
	analysis Analysis // of the latest revision that has one
	// shown is the state that the last lines described, next what is about to be
	// done.
	shown Seen
	next  string
	load  *traffic.Load // nil before the first request
	// header is the header that a header route matches, and headerLoad sends the
	// requests with it; empty and nil where the Rollout sets none.
	header     string
	headerLoad *traffic.Load
	live       Live
	counted    int       // answers that live has taken in
	lastLine   time.Time // when the last line on the requests was written
	// told holds the events that have been shown.
	told map[string]bool
	// walk runs the commands of the guide.
	walk sourceguide.Walk
}

// playInside plays the demo, which began at a time that may be before this
// process was started.
func playInside(ctx context.Context, out *os.File, root string, router Router, proxy Proxy, began time.Time) (code int, err error) {
	config, err := cluster.RESTConfig()
	if err != nil {
		return 0, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return 0, err
	}
	p := &player{screen: NewScreen(out), router: router, setting: settings[router], proxy: proxy, root: root, started: began, told: make(map[string]bool)}
	defer func() { err = errors.Join(err, p.screen.Close()) }()
	if router == Steps {
		return (&stepsPlayer{player: *p}).playSteps(ctx, client)
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()

	deploy := p.deploy
	if router == Guide {
		deploy = p.deployGuide
		if p.walk.Dir, err = os.MkdirTemp("", "guide-"); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(p.walk.Dir)) }()
	}
	if err := deploy(watching, client); err != nil {
		return 0, err
	}
	if err := p.startRequests(ctx, client); err != nil {
		return 0, err
	}
	for _, load := range p.loads() {
		defer load.Stop()
	}
	if router == Guide {
		if err := p.seePodsFollow(ctx); err != nil {
			return 0, err
		}
	}
	acts := p.setting.acts()
	all := make([]played, 0, len(acts))
	for _, act := range acts {
		this, err := p.play(ctx, act)
		if err != nil {
			return 0, err
		}
		all = append(all, this)
	}
	if router == Guide {
		if err := p.lookAndRemove(ctx); err != nil {
			return 0, err
		}
	}
	requests := sent{answers: p.load.Stop(), header: p.header}
	if p.headerLoad != nil {
		requests.headerAnswers = p.headerLoad.Stop()
	}
	if router == Guide {
		if err := p.cleanUp(ctx); err != nil {
			return 0, err
		}
	}
	outcomes := judgeActs(all, requests, proxy)
	return exitCode(outcomes), p.screen.Say(table(outcomes, proxy, time.Since(p.started))...)
}

// deploy applies the sample and waits until it is healthy.
func (p *player) deploy(ctx context.Context, client dynamic.Interface) error {
	namespace := p.setting.namespace
	for _, directory := range p.setting.before {
		if err := p.run(ctx, "kubectl", "apply", "-k", directory); err != nil {
			return err
		}
	}
	if err := p.run(ctx, "kubectl", "create", "ns", namespace); err != nil {
		return err
	}
	if err := p.run(ctx, "kubectl", "-n", namespace, "apply", "-k", p.setting.sample); err != nil {
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
	return p.awaitHealthy(ctx, client)
}

// awaitHealthy begins to observe the Rollout, and waits until it is healthy.
func (p *player) awaitHealthy(ctx context.Context, client dynamic.Interface) error {
	p.observed = observe(ctx, client, p.setting)
	err := p.until(ctx, startTime, func(seen Seen) (bool, error) {
		return seen.Phase == "Healthy" && seen.Promoted, nil
	})
	if errors.Is(err, errTooLong) {
		return fmt.Errorf("Rollout %s/%s does not become healthy: %w", p.setting.namespace, p.setting.rollout, err)
	}
	return err
}

// play sets an act's image, does what a person would, and judges what was seen.
func (p *player) play(ctx context.Context, act Act) (played, error) {
	p.next = ""
	this := played{act: act, requests: p.load.Mark()}
	if p.headerLoad != nil {
		this.headerRequests = p.headerLoad.Mark()
	}
	name := p.setting.rollout
	this.versions.Old = p.live.Versions.New
	this.versions.New, this.versions.Faulty = versionOf(act.Image)
	p.live.Versions = this.versions
	if err := p.screen.Sayf(Bold, "\n%s", act.heading()); err != nil {
		return this, err
	}
	// The requests before the new image are judged as well.
	if err := p.awaitRequests(ctx, this); err != nil {
		return this, err
	}
	p.timeline.Forget()
	earlier := p.analysis.Revision
	expected := act.Expect(p.canary)
	if err := p.rollouts(ctx, "set", "image", name, name+"="+act.Image); err != nil {
		return this, err
	}
	decided := make(map[int32]bool)
	var rested time.Time // when the Rollout came to rest
	err := p.until(ctx, actTime, func(seen Seen) (bool, error) {
		this.judgement = Judge(expected, ofImage(p.timeline.Seen(), act.Image))
		if seen.Image != act.Image {
			return false, nil
		}
		this.last = seen.Status
		if p.analysis.Revision > earlier {
			this.analysis = p.analysis
		}
		if !ended(seen) {
			rested = time.Time{}
		} else if rested.IsZero() {
			rested = time.Now()
		}
		// At rest, an unexpected state no longer changes into the expected one, but
		// observations may still be on their way.
		asClaimed := this.judgement.OK() && len(analysisProblems(act, this.analysis, this.last)) == 0 && p.enoughRequests(seen)
		if ended(seen) && (asClaimed || time.Since(rested) > settleTime) {
			return true, nil
		}
		command := act.Command(p.canary, seen)
		if command == "" || decided[seen.Step] {
			p.next = ""
			return false, nil
		}
		if !p.enoughRequests(seen) {
			p.next = command + " after some more requests"
			return false, nil
		}
		decided[seen.Step], p.next = true, ""
		if act.Look != "" && len(decided) == 1 {
			if err := p.walkThrough(ctx, act.Look); err != nil {
				return false, err
			}
		}
		return false, p.rollouts(ctx, command, name)
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

// until shows what happens until done returns true. It calls done after each change
// and several times a second, and returns errTooLong when it takes longer than limit.
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
			// Observations that have already arrived are taken in before a decision.
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
		if err := p.screen.Panel(panel(p.canary, seen, p.live, p.next)); err != nil {
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
	case o.analysis != nil:
		return p.takeAnalysis(*o.analysis)
	case o.split != nil:
		p.timeline.AddSplit(o.revision, o.at, *o.split)
	case o.rollout != nil:
		canary, err := canaryOf(o.rollout, p.router)
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
	// Report how the requests were split before the next split is reported.
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

// takeAnalysis tells of each measurement of the latest analysis.
func (p *player) takeAnalysis(a Analysis) error {
	before := p.analysis
	if a.Revision < before.Revision {
		return nil
	}
	p.analysis = a
	if a.Measurements() == 0 || a == before {
		return nil
	}
	style := Plain
	if a.Phase == string(v1alpha1.AnalysisPhaseFailed) {
		style = Bad
	}
	return p.say(style, "analysis    "+a.String())
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
	// An event that happens again comes again, with a higher count. A warning that is
	// repeated with each retry is shown once.
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
