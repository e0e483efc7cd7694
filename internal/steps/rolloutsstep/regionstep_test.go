package rolloutsstep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/hashicorp/go-hclog"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// fakeViews are the views of regions, as a test sets them.
type fakeViews struct {
	mu      sync.Mutex
	regions map[string]*regionView
	images  map[string]map[string]string // of ReplicaSets
	// asked is what the last view of a cluster was asked for, read which ReplicaSets were.
	asked map[string]string
	read  []string
}

func (f *fakeViews) view(_ context.Context, c Cluster, hosts, namespaces []string) regionView {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked[c.Name] = fmt.Sprintf("%s %v %v", c.Secret, hosts, namespaces)
	v := *f.regions[c.Name]
	v.Name = c.Name
	v.images = func(_ context.Context, namespace, replicaSet string) (map[string]string, error) {
		which := c.Name + " " + namespace + "/" + replicaSet
		f.read = append(f.read, which)
		if found := f.images[which]; found != nil {
			return found, nil
		}
		return nil, errors.New("there is no such ReplicaSet")
	}
	return v
}

func (f *fakeViews) close() {}

// regionsController is a controller of region eu whose steps wait for eu, us and ap.
type regionsController struct {
	*controller
	views *fakeViews
	// section is what the preset has under rollouts.
	section map[string]any
}

const ownUID = "uid-in-eu"

// newRegionsController makes one whose preset has more keys than clusters.
func newRegionsController(t *testing.T, keys string) *regionsController {
	c := newController(t, func(opts *Options) {
		opts.SecretsNamespace, opts.Namespaces = "argo-rollouts", []string{"payments"}
	})
	views := &fakeViews{regions: map[string]*regionView{}, images: map[string]map[string]string{}, asked: map[string]string{}}
	c.kind.regions.close()
	c.kind.regions = views
	var section map[string]any
	text := `{"clusters": [{"name": "eu", "secret": "region-eu"}, {"name": "us", "secret": "region-us"}, {"name": "ap", "secret": "region-ap"}]` + keys + `}`
	if err := json.Unmarshal([]byte(text), &section); err != nil {
		t.Fatal(err)
	}
	preset := &steps.Preset{Defaults: map[string]any{"rollouts": section}, Hosts: []string{"us.example.com"}}
	c.plugin = steps.New(steps.Options{Kind: c.kind, Presets: onePreset{preset}, Events: c, Logger: hclog.NewNullLogger(), CallWait: time.Minute})
	r := &regionsController{c, views, section}
	for _, region := range []string{"eu", "us", "ap"} {
		r.in(region)
	}
	return r
}

type onePreset struct{ preset *steps.Preset }

func (p onePreset) Preset(context.Context, string) (*steps.Preset, error) { return p.preset, nil }

// in puts Rollouts into a region in place of those it had, as its watch would show it.
func (r *regionsController) in(region string, rollouts ...*v1alpha1.Rollout) {
	r.t.Helper()
	r.views.mu.Lock()
	defer r.views.mu.Unlock()
	v := r.views.regions[region]
	if v == nil {
		v = &regionView{Failures: &failures{}}
		r.views.regions[region] = v
	}
	before := v.Rollouts
	v.Rollouts = nil
	for _, ro := range rollouts {
		if ro.UID == "" {
			uid("uid-of-" + ro.Name + "-in-" + region)(ro)
		}
		after := inRegion(r.t, ro)
		i := slices.IndexFunc(before, func(b *kube.Summary[Rollout]) bool { return b.Name == after.Name })
		if i < 0 {
			v.Failures.changed(nil, after)
		} else {
			v.Failures.changed(before[i], after)
		}
		v.Rollouts = append(v.Rollouts, after)
	}
	v.Unreachable, v.Since = "", time.Time{}
}

// away makes a region one that has not answered for some time.
func (r *regionsController) away(region string, since time.Duration) {
	r.views.mu.Lock()
	defer r.views.mu.Unlock()
	v := r.views.regions[region]
	v.Unreachable, v.Since = "connection refused", r.kind.cluster.now().Add(-since)
}

// own stores this region's Rollout at its barrier, the first step of two, and returns it.
func (r *regionsController) own(change ...func(*v1alpha1.Rollout)) *v1alpha1.Rollout {
	r.t.Helper()
	all := append([]func(*v1alpha1.Rollout){uid(ownUID), runsApp("v2"), withSteps(weight(20), check(""), weight(50))}, change...)
	return r.put(canary("b", 1, all...))
}

func v2At(step int32, change ...func(*v1alpha1.Rollout)) *v1alpha1.Rollout {
	return canary("b", step, append([]func(*v1alpha1.Rollout){runsApp("v2"), withSteps(weight(20), check(""), weight(50))}, change...)...)
}

func TestRegionsMeet(t *testing.T) {
	r := newRegionsController(t, "")
	b := r.own()
	r.pod(b, "b-1", at(0))
	r.in("eu", b)
	r.in("us", canary("b", 0, runsApp("v1"), healthy), canary("else", 0, runsApp("v1"), aborted(5)))
	r.mustRun(b, types.PhaseRunning, "barrier acme/check-others#1: waiting for 2 of 2: demo/b in ap does not exist; demo/b in us has another version (app v1, and this one app v2): it is Healthy")
	r.in("us", v2At(0))
	r.in("ap", v2At(2))
	r.mustRun(b, types.PhaseRunning, "waiting for 1 of 2: demo/b in us is at step 1 of 3, before step 2")
	r.in("us", v2At(1))
	r.mustRun(b, types.PhaseSuccessful, "demo/b in us is at it; demo/b in ap is past it")
	if got := r.views.asked["us"]; got != "region-us [us.example.com] [demo]" {
		t.Errorf("us was asked for %s", got)
	}
	if len(r.events) != 2 || !strings.HasPrefix(r.events[1], "b StepWaiting: ") || !strings.Contains(r.events[1], "demo/b in us") {
		t.Errorf("Events: %v", r.events)
	}
}

// One region fails, all roll back, and are retried one by one.
func TestRegionsRollBackTogetherAndAreRetriedOneByOne(t *testing.T) {
	r := newRegionsController(t, "")
	r.kind.cluster.now = func() time.Time { return at(100).Time }
	b := r.own()
	r.pod(b, "b-1", at(0))
	r.in("eu", b)
	r.in("ap", v2At(1))
	r.in("us", v2At(0))
	r.mustRun(b, types.PhaseRunning, "waiting for 1 of 2: demo/b in us is at step 1")
	r.in("us", v2At(0, aborted(9)))
	r.mustRun(b, types.PhaseFailed, "failed with others: demo/b in us failed at 2026-11-22T12:00:09Z, after this canary began")

	r.in("ap", v2At(0, aborted(10)))
	r.own(aborted(11))
	r.own()
	b = r.own(r.anew)
	r.mustRun(b, types.PhaseRunning, "waiting for 2 of 2: demo/b in us failed at 2026-11-22T12:00:09Z, before this canary began: retry it (RolloutAborted: Rollout aborted update to revision 2); demo/b in ap failed at 2026-11-22T12:00:10Z")
	r.in("ap", v2At(1))
	r.mustRun(b, types.PhaseRunning, "waiting for 1 of 2: demo/b in us failed at")
	r.in("us", v2At(1))
	r.mustRun(b, types.PhaseSuccessful, "demo/b in us is at it; demo/b in ap is at it")
}

// A region fails while this canary is before the barrier, and is then put back while it does
// not answer.
func TestAFailureSeenBeforeIsNotForgotten(t *testing.T) {
	failing := "failed with others: demo/b in us failed at 2026-11-22T12:00:09Z"
	for _, policy := range []string{"Wait", "Ignore", "Fail"} {
		t.Run(policy, func(t *testing.T) {
			r := newRegionsController(t, `, "onUnreachable": "`+policy+`"`)
			b := r.own()
			r.pod(b, "b-1", at(0))
			r.in("eu", b)
			r.in("ap", v2At(1))
			r.in("us", v2At(0, aborted(9)))
			r.away("us", time.Hour)
			r.mustRun(b, types.PhaseFailed, failing)
			b = r.own(r.anew)
			r.in("us", canary("b", 0, runsApp("v1"), healthy))
			r.mustRun(b, types.PhaseFailed, failing+" with this version, after this canary began, and has been changed since")
			b = r.own(r.anew, runsApp("v3"))
			r.in("ap", v2At(1, runsApp("v3")))
			r.mustRun(b, types.PhaseRunning, "demo/b in us has another version (app v1, and this one app v3)")
		})
	}
}

// An abort of a clock that is an hour ahead fails each canary of that hour that waits for it, until
// the Rollout there is retried, or changed to this version again.
func TestAClockThatIsAhead(t *testing.T) {
	r := newRegionsController(t, "")
	r.kind.cluster.now = func() time.Time { return at(100).Time }
	hourAhead := aborted(3609)
	b := r.own()
	r.pod(b, "b-1", at(0))
	r.in("eu", b)
	r.in("ap", v2At(1))
	r.in("us", v2At(0, hourAhead))
	r.mustRun(b, types.PhaseFailed, "failed with others: demo/b in us failed at 2026-11-22T13:00:09Z")
	for _, put := range []*v1alpha1.Rollout{v2At(0, hourAhead), canary("b", 0, runsApp("v1"), healthy)} {
		r.own(aborted(11))
		r.own()
		b = r.own(r.anew)
		r.in("us", put)
		r.mustRun(b, types.PhaseFailed, "failed with others: demo/b in us failed at 2026-11-22T13:00:09Z")
	}
	for _, put := range []*v1alpha1.Rollout{v2At(0), v2At(1)} {
		r.own(aborted(11))
		r.own()
		b = r.own(r.anew)
		r.in("us", put)
		r.mustRun(b, map[int32]types.StepPhase{0: types.PhaseRunning, 1: types.PhaseSuccessful}[*put.Status.CurrentStepIndex], "demo/b in us is at")
	}
}

func TestARegionThatDoesNotAnswer(t *testing.T) {
	for policy, want := range map[string]struct {
		phase types.StepPhase
		said  string
	}{
		"Wait":   {types.PhaseRunning, "waiting for 1 of 2: us has not answered since 2026-11-22T11:59:00Z: connection refused"},
		"Ignore": {types.PhaseSuccessful, "us is left out: it has not answered since 2026-11-22T11:59:00Z: connection refused; demo/b in ap is at it"},
		"Fail":   {types.PhaseFailed, "us has not answered since 2026-11-22T11:59:00Z: connection refused"},
	} {
		t.Run(policy, func(t *testing.T) {
			r := newRegionsController(t, `, "onUnreachable": "`+policy+`"`)
			r.kind.cluster.now = func() time.Time { return noon }
			b := r.own()
			r.in("eu", b)
			r.in("ap", v2At(1))
			r.in("us", v2At(1))
			r.away("us", 59*time.Second)
			r.mustRun(b, types.PhaseRunning, "waiting for 1 of 2: us has not answered since 2026-11-22T11:59:01Z: connection refused")
			r.away("us", time.Minute)
			r.mustRun(b, want.phase, want.said)
		})
	}
}

// A preset may change while steps wait.
func TestAClusterIsAddedAndTakenAway(t *testing.T) {
	r := newRegionsController(t, `, "until": "Promoted"`)
	b := r.own()
	r.in("eu", v2At(1))
	r.in("us", b)
	r.mustRun(b, types.PhaseRunning, "waiting for 1 of 1: demo/b in eu has to become Healthy")
	all := r.section["clusters"].([]any)
	r.section["clusters"] = append([]any{map[string]any{"name": "sa", "secret": "region-sa"}}, all...)
	r.in("sa")
	r.mustRun(b, types.PhaseRunning, "waiting for 2 of 2: demo/b in sa does not exist; demo/b in eu has to become Healthy")
	r.section["clusters"] = all[1:]
	r.mustRun(b, types.PhaseSuccessful, "us is the first of the clusters")
	b = r.own(r.anew)
	r.section["clusters"] = all[:2]
	r.mustRun(b, types.PhaseRunning, "waiting for 1 of 1: demo/b in eu has to become Healthy")
	r.section["clusters"] = all[:1]
	r.mustRun(b, types.PhaseRunning, "this one is in none that answers: want its cluster in the list, which has eu")
}

// Its own region tells its place in the list, which the step's status keeps.
func TestRegionsGoOnOneAfterAnother(t *testing.T) {
	r := newRegionsController(t, `, "until": "Promoted"`)
	b := r.own()
	r.in("eu", v2At(1))
	r.in("us", b)
	r.in("ap", v2At(0))
	r.mustRun(b, types.PhaseRunning, "waiting for 1 of 1: demo/b in eu has to become Healthy: it is Progressing")
	r.in("us")
	r.away("us", time.Hour)
	r.mustRun(b, types.PhaseRunning, "waiting for 1 of 1: demo/b in eu has to become Healthy: it is Progressing")
	r.in("eu", v2At(3, healthy))
	r.mustRun(b, types.PhaseSuccessful, "demo/b in eu is Healthy")
	b = r.own(r.anew)
	r.mustRun(b, types.PhaseRunning, "with until: Promoted a Rollout waits for the clusters before its own, and this one is in none that answers: us has not answered since")
	r.in("eu", b)
	r.mustRun(b, types.PhaseSuccessful, "eu is the first of the clusters")
}

// Its place in the list is known too where it waits for Rollouts of other namespaces alone.
func TestRegionsGoOnOneAfterAnotherForAnotherNamespace(t *testing.T) {
	pay := func(ro *v1alpha1.Rollout) { ro.Namespace, ro.Labels = "payments", map[string]string{"team": "pay"} }
	for _, which := range []string{`"names": ["payments/c"]`, `"selector": {"matchLabels": {"team": "pay"}}, "namespaces": ["payments"]`} {
		r := newRegionsController(t, `, "until": "Promoted", `+which)
		b := r.own()
		r.in("eu", canary("c", 1, pay, runsApp("v2")))
		r.in("us", b, canary("d", 1, runsApp("v2")))
		r.mustRun(b, types.PhaseRunning, "waiting for 1 of 1: payments/c in eu has to become Healthy")
		if got := r.views.asked["eu"]; got != "region-eu [us.example.com] [demo payments]" {
			t.Errorf("eu was asked for %s", got)
		}
		r.in("eu", canary("c", 1, pay, runsApp("v2"), healthy))
		r.mustRun(b, types.PhaseSuccessful, "payments/c in eu is Healthy")
	}
}

func TestASelectorInRegions(t *testing.T) {
	shop := func(ro *v1alpha1.Rollout) { ro.Labels = map[string]string{"team": "shop", "release": "r7"} }
	r := newRegionsController(t, `, "selector": {"matchLabels": {"team": "shop"}}, "namespaces": ["demo", "payments"], "version": "rollout.labels[\"release\"]"`)
	b := r.own(shop)
	r.in("eu", b)
	r.in("us", v2At(1, shop), canary("pay", 1, shop, runsApp("v9"), func(ro *v1alpha1.Rollout) { ro.Namespace = "payments" }))
	r.mustRun(b, types.PhaseRunning, "waiting for 1 of 3: ap has too few Rollouts: the selector (team=shop) matches 0 in namespace demo, payments, and min is 1: create or label them, or set min: 0")
	deleted := v2At(1, shop, func(ro *v1alpha1.Rollout) { now := at(0); ro.DeletionTimestamp, ro.Name = &now, "gone" })
	r.in("ap", v2At(1, shop, func(ro *v1alpha1.Rollout) { ro.Labels["release"] = "r6" }), canary("else", 0, runsApp("v2")), deleted)
	r.mustRun(b, types.PhaseRunning, "waiting for 1 of 3: demo/b in ap has another version (r6, and this one r7)")
	r.in("eu", b, canary("pay", 0, shop, runsApp("v9")))
	r.in("ap", v2At(1, shop))
	r.mustRun(b, types.PhaseRunning, "waiting for 1 of 4: demo/pay in eu is at step 1 of 5, before step 2")
	r.in("eu", b, canary("pay", 0, shop, runsApp("v9"), healthy))
	r.mustRun(b, types.PhaseSuccessful, "demo/pay in eu is Healthy; demo/b in us is at it; payments/pay in us is at it; demo/b in ap is at it")
	if got := r.views.asked["ap"]; got != "region-ap [us.example.com] [demo payments]" {
		t.Errorf("ap was asked for %s", got)
	}
}

func TestNamesInRegions(t *testing.T) {
	r := newRegionsController(t, `, "names": ["b", "payments/c"]`)
	pay := func(ro *v1alpha1.Rollout) { ro.Namespace = "payments" }
	b := r.own()
	r.in("eu", b, canary("c", 1, pay, runsApp("v2")))
	r.in("us", v2At(1), canary("c", 1, pay, runsApp("v2")))
	r.in("ap", v2At(1))
	r.mustRun(b, types.PhaseRunning, "waiting for 1 of 5: payments/c in ap does not exist")
	r.in("ap", v2At(1), canary("c", 1, pay, runsApp("v2")))
	r.mustRun(b, types.PhaseSuccessful, "payments/c in eu is at it; demo/b in us is at it; payments/c in us is at it; demo/b in ap is at it; payments/c in ap is at it")
}

func TestWorkloadRefsInRegions(t *testing.T) {
	r := newRegionsController(t, "")
	ref := func(ro *v1alpha1.Rollout) {
		ro.Spec.WorkloadRef = &v1alpha1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "b"}
		ro.Spec.TemplateResolvedFromRef = true // the API server has no template
	}
	b := r.own(ref)
	b.Spec.Template = *v2At(0).Spec.Template.DeepCopy() // what the controller sends has it
	b.Spec.TemplateResolvedFromRef = true
	r.in("eu", b)
	r.in("us", v2At(1, ref))
	r.in("ap", v2At(1))
	r.mustRun(b, types.PhaseRunning, "waiting for 1 of 2: demo/b in us has a version that is not known: there is no such ReplicaSet")
	r.views.images["us demo/b-v2"] = map[string]string{"app": "app:v1"}
	r.mustRun(b, types.PhaseRunning, "demo/b in us has another version (app v1, and this one app v2)")
	r.views.images["us demo/b-v2"] = map[string]string{"app": "app:v2"}
	r.mustRun(b, types.PhaseSuccessful, "demo/b in us is at it; demo/b in ap is at it")
}

// A Secret that leads to another region's cluster would leave its own region out, and nobody
// would see that.
func TestTwoSecretsThatLeadToOneCluster(t *testing.T) {
	r := newRegionsController(t, "")
	b := r.own()
	r.in("eu", b)
	r.in("us", b)
	r.in("ap", v2At(1))
	r.mustRun(b, types.PhaseFailed, "the clusters eu and us of the preset are the same one: put another kubeconfig into the Secret of one of them")
	another := v2At(1, uid("uid-of-b-in-us"))
	b = r.own(r.anew)
	r.in("eu", b)
	r.in("us", another)
	r.in("ap", another)
	r.mustRun(b, types.PhaseFailed, "the clusters us and ap of the preset are the same one")
	b = r.own(r.anew)
	r.away("ap", time.Second) // the Secret is being replaced: what was seen is of the other cluster
	r.mustRun(b, types.PhaseRunning, "waiting for 1 of 2: ap has not answered since")
}

// The ReplicaSet of a failure that is older than the canary may be gone: it is not asked for
// at each check.
func TestAnOlderFailureCostsNoRequest(t *testing.T) {
	r := newRegionsController(t, "")
	r.kind.cluster.now = func() time.Time { return at(100).Time }
	ref := func(ro *v1alpha1.Rollout) { ro.Spec.WorkloadRef = &v1alpha1.ObjectRef{} }
	b := r.own()
	r.pod(b, "b-1", at(50))
	r.in("eu", b)
	r.in("us", canary("b", 0, ref, aborted(9)))
	r.in("us", canary("b", 0, runsApp("v1"), healthy))
	r.in("ap", v2At(1))
	r.mustRun(b, types.PhaseRunning, "demo/b in us has another version")
	r.views.read = nil
	r.mustRun(b, types.PhaseRunning, "demo/b in us has another version")
	if len(r.views.read) > 0 {
		t.Errorf("read %v", r.views.read)
	}
}

func TestAVersionThatCannotBeMadeFails(t *testing.T) {
	r := newRegionsController(t, `, "version": "rollout.labels[\"release\"]"`)
	b := r.own()
	r.mustRun(b, types.PhaseFailed, `the version of this Rollout is not known: rollout.labels["release"]`)
	if len(r.views.asked) > 0 {
		t.Errorf("asked for %v", r.views.asked)
	}
}

// A canary without pods counts as begun when it comes to the barrier, whatever the clocks of
// other clusters say of failures that are known by then.
func TestACanaryWithoutPodsAmongRegions(t *testing.T) {
	r := newRegionsController(t, "")
	r.kind.cluster.now = func() time.Time { return at(5).Time }
	b := r.own(func(ro *v1alpha1.Rollout) { ro.Status.UpdatedReplicas = 0 })
	r.in("eu", b)
	r.in("us", v2At(0, aborted(60))) // a clock that is ahead
	r.in("ap", v2At(0, aborted(4)))
	r.in("ap", canary("b", 0, runsApp("v1"), healthy))
	r.mustRun(b, types.PhaseRunning, "waiting for 2 of 2: demo/b in us failed at 2026-11-22T12:01:00Z, before this canary began: retry it (RolloutAborted: Rollout aborted update to revision 2); demo/b in ap has another version")
}

func TestClustersAreForPresets(t *testing.T) {
	kind := newKind(t, newController(t).server, func(opts *Options) { opts.SecretsNamespace = "argo-rollouts" })
	const clusters = `"clusters": [{"name": "eu", "secret": "region-eu"}, {"name": "us", "secret": "region-us"}]`
	many := strings.Repeat(`{"name": "a", "secret": "b"},`, maxClusters) + `{"name": "a", "secret": "b"}`
	tests := []struct{ preset, config, problem string }{
		{`{` + clusters + `}`, "", ""},
		{`{` + clusters + `, "until": "Promoted", "onUnreachable": "Ignore", "version": "rollout.labels[\"release\"]", "names": ["a"]}`, "", ""},
		{`{` + clusters + `}`, `{` + clusters + `, "selector": {}, "until": "Barrier", "onUnreachable": "Wait"}`, ""},
		{`{"names": ["a"]}`, `{` + clusters + `}`, "clusters: only a preset has these, as their Secrets are the admin's"},
		{"null", `{` + clusters + `}`, "clusters: only a preset has these"},
		{`{` + clusters + `}`, `{"names": ["a"], "clusters": []}`, "clusters: only a preset has these"},
		{`{` + clusters + `}`, `{"clusters": [{"name": "eu", "secret": "another"}]}`, "clusters: only a preset has these"},
		{`{"clusters": [` + many + `]}`, "", "clusters: want up to 20, not 21"},
		{`{"clusters": [{"name": "EU", "secret": "a"}]}`, "", `clusters[0].name: want a name such as eu-west of up to 63 bytes, not "EU"`},
		{`{"clusters": [{"secret": "a"}]}`, "", `clusters[0].name: want a name`},
		{`{"clusters": [{"name": "eu"}]}`, "", `clusters[0].secret: want the name of a Secret of --secrets-namespace, not ""`},
		{`{"clusters": [{"name": "eu", "secret": "a/b"}]}`, "", `clusters[0].secret: want the name of a Secret`},
		{`{"clusters": [{"name": "eu", "secret": "a"}, {"name": "eu", "secret": "b"}]}`, "", `clusters[1].name: eu is there twice`},
		{`{"clusters": [{"name": "eu", "secret": "a"}, {"name": "us", "secret": "a"}]}`, "", `clusters[1].secret: a is there twice: each cluster has its own Secret`},
		{`{` + clusters + `, "until": "Healthy"}`, "", `until: want Barrier or Promoted, not "Healthy"`},
		{`{` + clusters + `, "onUnreachable": "Abort"}`, "", `onUnreachable: want Wait, Ignore or Fail, not "Abort"`},
		{`{` + clusters + `, "version": "weight"}`, "", "version: weight differs from cluster to cluster"},
		{"null", `{"names": ["a"], "until": "Promoted"}`, "until: this is for clusters, which a preset has"},
		{"null", `{"names": ["a"], "version": "weight"}`, "version: this is for clusters"},
		{"null", `{"names": ["a"], "onUnreachable": "Wait"}`, "onUnreachable: this is for clusters"},
		{`{"clusters": [{"name": "eu", "secert": "a"}]}`, "", `clusters[0].secert: the key is not known: did you mean "secret"?`},
	}
	for _, test := range tests {
		source := steps.Source{Config: json.RawMessage(test.config), Defaults: json.RawMessage(test.preset)}
		if test.config == "" {
			source.Config = source.Defaults
		}
		_, err := kind.Parse(source)
		if test.problem == "" && err != nil || test.problem != "" && (err == nil || !strings.HasPrefix(err.Error(), test.problem)) {
			t.Errorf("%.120s under %.120s: %v, want %q", source.Config, source.Defaults, err, test.problem)
		}
	}
	preset := json.RawMessage(`{` + clusters + `}`)
	if _, err := kind.Parse(steps.Source{Config: preset, Defaults: preset, PresetHosts: []string{"https://eu.example.com"}}); err == nil || !strings.HasPrefix(err.Error(), "hosts of the preset: ") {
		t.Errorf("hosts that are none: %v", err)
	}
	kind.opts.SecretsNamespace = ""
	if _, err := kind.Parse(steps.Source{Config: preset, Defaults: preset}); err == nil || err.Error() != "clusters: the plugin has to be registered with the namespace of their Secrets (--secrets-namespace)" {
		t.Errorf("without a namespace of Secrets: %v", err)
	}
}
