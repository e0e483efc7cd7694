package demo

import (
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func weight(w int32) v1alpha1.CanaryStep { return v1alpha1.CanaryStep{SetWeight: &w} }

func pause(duration string) v1alpha1.CanaryStep {
	step := v1alpha1.CanaryStep{Pause: &v1alpha1.RolloutPause{}}
	if duration != "" {
		d := intstr.Parse(duration)
		step.Pause.Duration = &d
	}
	return step
}

// guide is the canary of the guide.
var guide = Canary{Rollout: "app", Stable: "s", Canary: "c", Steps: []v1alpha1.CanaryStep{
	weight(20), pause(""), weight(50), pause("30s"), weight(80), pause("30s"),
}}

const (
	text20  = "- service: s\n  weight: 80\n- service: c\n  weight: 20\n"
	text50  = "- service: s\n  weight: 50\n- service: c\n  weight: 50\n"
	text80  = "- service: s\n  weight: 20\n- service: c\n  weight: 80\n"
	text100 = "- service: s\n  weight: 0\n- service: c\n  weight: 100\n"
)

func TestExpect(t *testing.T) {
	tests := map[string]struct {
		act    Act
		canary Canary
		want   []Expectation
	}{
		"promoted": {
			canary: guide,
			want: []Expectation{
				{Title: "1/6 setWeight 20", Step: 0, Weight: 20, Split: text20, Share: 20, HeaderShare: 20},
				{Title: "3/6 setWeight 50", Step: 2, Weight: 50, Split: text50, Share: 50, HeaderShare: 50},
				{Title: "5/6 setWeight 80", Step: 4, Weight: 80, Split: text80, Share: 80, HeaderShare: 80},
				{Title: "all steps done", Step: 6, Weight: 100, Split: text100, Share: 100, HeaderShare: 100},
				{Title: "promoted", When: AtPromotion, Share: 100, HeaderShare: 100},
			},
		},
		"caught at 50": {
			act: Act{CaughtAt: 50}, canary: guide,
			want: []Expectation{
				{Title: "1/6 setWeight 20", Step: 0, Weight: 20, Split: text20, Share: 20, HeaderShare: 20},
				{Title: "3/6 setWeight 50", Step: 2, Weight: 50, Split: text50, Share: 50, HeaderShare: 50},
				{Title: "aborted", When: AtAbort},
			},
		},
		"from 0 to 100": {
			canary: Canary{Stable: "s", Canary: "c", Steps: []v1alpha1.CanaryStep{weight(0), pause("1"), weight(100)}},
			want: []Expectation{
				{Title: "1/3 setWeight 0", Step: 0},
				{Title: "3/3 setWeight 100", Step: 2, Weight: 100, Split: text100, Share: 100, HeaderShare: 100},
				{Title: "all steps done", Step: 3, Weight: 100, Split: text100, Share: 100, HeaderShare: 100},
				{Title: "promoted", When: AtPromotion, Share: 100, HeaderShare: 100},
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.act.Expect(tt.canary)); diff != "" {
				t.Errorf("expectations (-want +got):\n%s", diff)
			}
		})
	}
}

// behindGateway is the canary of the demo of router GatewayAPI, with fewer weights.
var behindGateway = Canary{Router: GatewayAPI, Rollout: "app", Stable: "s", Canary: "c", Steps: []v1alpha1.CanaryStep{
	weight(5), pause(""), {SetHeaderRoute: &v1alpha1.SetHeaderRoute{Name: "beta", Match: []v1alpha1.HeaderRoutingMatch{
		{HeaderName: "X-Beta", HeaderValue: &v1alpha1.StringMatch{Exact: "yes"}},
	}}}, weight(25), pause(""),
}}

// A header route is added between two weights, and removed before the weight is.
func TestExpectHeaderRoute(t *testing.T) {
	const beta = "\nc=1 with X-Beta: yes"
	begin := []Expectation{
		{Title: "1/5 setWeight 5", Step: 0, Weight: 5, Split: "s=95, c=5", Share: 5, HeaderShare: 5},
		{Title: "3/5 setHeaderRoute beta", Step: 2, Weight: 5, Split: "s=95, c=5" + beta, Share: 5, HeaderShare: 100},
		{Title: "4/5 setWeight 25", Step: 3, Weight: 25, Split: "s=75, c=25" + beta, Share: 25, HeaderShare: 100},
	}
	for name, tt := range map[string]struct {
		act  Act
		want []Expectation
	}{
		"promoted": {Act{}, []Expectation{
			{Title: "all steps done", Step: 5, Weight: 100, Split: "s=0, c=100" + beta, Share: 100, HeaderShare: 100},
			{Title: "no header route", When: AtPromotion, Weight: 100, Split: "s=0, c=100", Share: 100, HeaderShare: 100},
			{Title: "promoted", When: AtPromotion, Split: "s=100, c=0", Share: 100, HeaderShare: 100},
		}},
		"caught at 25": {Act{CaughtAt: 25}, []Expectation{
			{Title: "no header route", When: AtAbort, Weight: 25, Split: "s=75, c=25", Share: 25},
			{Title: "aborted", When: AtAbort, Split: "s=100, c=0"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(append(begin[:3:3], tt.want...), tt.act.Expect(behindGateway)); diff != "" {
				t.Errorf("expectations (-want +got):\n%s", diff)
			}
		})
	}
	if name, value := behindGateway.header(); name != "X-Beta" || value != "yes" {
		t.Errorf("the header is %q: %q", name, value)
	}
	if name, _ := guide.header(); name != "" {
		t.Errorf("steps without a header route have the header %q", name)
	}
}

func TestCommand(t *testing.T) {
	caught20, caught50, byHand := Act{CaughtAt: 20}, Act{CaughtAt: 50}, Act{CaughtAt: 20, ByHand: true}
	tests := map[string]struct {
		act  Act
		seen Seen
		want string
	}{
		"the first weight is not there yet":  {seen: Seen{Status: Status{Step: 0}}},
		"a pause without an end":             {seen: Seen{Status: Status{Step: 1, Paused: true, Weight: 20}}, want: "promote"},
		"reached, but not paused yet":        {seen: Seen{Status: Status{Step: 1, Weight: 20}}},
		"a pause with an end":                {seen: Seen{Status: Status{Step: 3, Paused: true, Weight: 50}}},
		"all steps done":                     {seen: Seen{Status: Status{Step: 6, Weight: 100}}},
		"promoted":                           {seen: Seen{Status: Status{Step: 6, Promoted: true}}},
		"before it has to be caught":         {act: caught50, seen: Seen{Status: Status{Step: 1, Paused: true, Weight: 20}}, want: "promote"},
		"where it has to be caught":          {act: caught20, seen: Seen{Status: Status{Step: 1, Paused: true, Weight: 20}}},
		"there, the weight not reported yet": {act: caught20, seen: Seen{Status: Status{Step: 1, Paused: true}}},
		"where the demo aborts it":           {act: byHand, seen: Seen{Status: Status{Step: 1, Paused: true, Weight: 20}}, want: "abort"},
		"there, but not paused yet":          {act: byHand, seen: Seen{Status: Status{Step: 1, Weight: 20}}},
		"aborted":                            {act: caught20, seen: Seen{Status: Status{Step: 0, Aborted: true}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tt.act.Command(guide, tt.seen); got != tt.want {
				t.Errorf("Command = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestDescribeStep(t *testing.T) {
	tests := []struct {
		step v1alpha1.CanaryStep
		want string
	}{
		{weight(20), "setWeight 20"},
		{pause(""), "pause"},
		{pause("30s"), "pause 30s"},
		{pause("30"), "pause 30s"},
		{pause("1m"), "pause 1m"},
		{v1alpha1.CanaryStep{SetCanaryScale: &v1alpha1.SetCanaryScale{}}, "setCanaryScale"},
		{v1alpha1.CanaryStep{SetHeaderRoute: &v1alpha1.SetHeaderRoute{Name: "beta"}}, "setHeaderRoute beta"},
		{v1alpha1.CanaryStep{Plugin: &v1alpha1.PluginStep{Name: "kedify/step", Config: []byte(`{"use": "chat"}`)}}, "chat"},
		{v1alpha1.CanaryStep{Plugin: &v1alpha1.PluginStep{Name: "acme/step", Config: []byte(`{"use": 1}`)}}, "acme/step"},
		{v1alpha1.CanaryStep{Plugin: &v1alpha1.PluginStep{Name: "acme/step"}}, "acme/step"},
	}
	for _, tt := range tests {
		if got := describeStep(tt.step); got != tt.want {
			t.Errorf("describeStep = %q, want %q", got, tt.want)
		}
	}
}
