package demo

import (
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const tooMany = `Metric "failed-requests" assessed Failed due to failed (1) > failureLimit (0)`

// The two analyses of a demo that goes as it should.
var (
	passed = Analysis{Revision: 2, Phase: "Successful", Message: "Run Terminated", Good: 3, Unclear: 2, Last: `{"failed":0,"requests":180}`}
	failed = Analysis{Revision: 3, Phase: "Failed", Message: tooMany, Bad: 1, Unclear: 2, Last: `{"failed":18,"requests":112}`}
	// abortedByIt is the Rollout after the failed analysis has aborted it.
	abortedByIt = Status{Phase: "Degraded", Aborted: true, Message: "RolloutAborted: Rollout aborted update to revision 3: Background analysis phase error/failed: " + tooMany}
)

func TestAnalysisOf(t *testing.T) {
	run := &v1alpha1.AnalysisRun{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"rollout.argoproj.io/revision": "3"}},
		Status: v1alpha1.AnalysisRunStatus{
			Phase: "Failed", Message: tooMany,
			MetricResults: []v1alpha1.MetricResult{{
				Successful: 1, Failed: 2, Inconclusive: 3, Error: 4,
				Measurements: []v1alpha1.Measurement{{Value: "1"}, {Value: "2"}},
			}},
		},
	}
	want := Analysis{Revision: 3, Phase: "Failed", Message: tooMany, Good: 1, Bad: 2, Unclear: 3, Errors: 4, Last: "2"}
	got := analysisOf(run)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("analysis (-want +got):\n%s", diff)
	}
	if got, want := got.String(), "Failed after measurement 10: 2: "+tooMany; got != want {
		t.Errorf("String = %q, want %q", got, want)
	}
	run.Status.MetricResults[0].Measurements[1] = v1alpha1.Measurement{Phase: "Error", Message: "connection refused"}
	if got := analysisOf(run).Last; got != "connection refused" {
		t.Errorf("the last measurement, which was not possible, is %q", got)
	}
	if got := analysisOf(&v1alpha1.AnalysisRun{}); got != (Analysis{}) {
		t.Errorf("analysis of an AnalysisRun that has not begun: %+v", got)
	}
}

func TestAnalysisProblems(t *testing.T) {
	good, bad := Act{}, Act{CaughtAt: 20}
	running := failed
	running.Phase, running.Message, running.Bad = "Running", "", 0
	byHand := abortedByIt
	byHand.Message = "RolloutAborted: Rollout aborted update to revision 3"
	for name, tt := range map[string]struct {
		act      Act
		analysis Analysis
		last     Status
		want     string // part of the problem
	}{
		"a good version":                    {act: good, analysis: passed},
		"a good version without analysis":   {act: good, want: "no background analysis has run"},
		"a good version that failed":        {act: good, analysis: failed, last: abortedByIt, want: "is not successful: Failed after measurement 3"},
		"a good version, nothing judged":    {act: good, analysis: Analysis{Revision: 2, Phase: "Successful", Unclear: 4}, want: "has judged nothing: all of its 4 measurements"},
		"a bad version":                     {act: bad, analysis: failed, last: abortedByIt},
		"a bad version without analysis":    {act: bad, last: abortedByIt, want: "no background analysis has run"},
		"an analysis that never fails":      {act: bad, analysis: running, last: Status{Phase: "Paused"}, want: "has not failed: Running after measurement 2"},
		"a bad version that passes":         {act: bad, analysis: passed, last: Status{Phase: "Healthy"}, want: "has not failed: Successful"},
		"a failed analysis without effect":  {act: bad, analysis: failed, last: Status{Phase: "Paused"}, want: "the Rollout has not aborted"},
		"aborted by somebody else":          {act: bad, analysis: failed, last: byHand, want: "does not say that its analysis has aborted it"},
		"aborted by somebody, not analysed": {act: bad, analysis: running, last: byHand, want: "has not failed: Running"},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(analysisProblems(tt.act, tt.analysis, tt.last), "\n")
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("problems %q, want %q in it", got, tt.want)
			}
		})
	}
}
