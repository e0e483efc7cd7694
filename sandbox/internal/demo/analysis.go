package demo

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
)

// revisionAnnotation says which revision of its Rollout an AnalysisRun is for.
const revisionAnnotation = "rollout.argoproj.io/revision"

// Analysis is what the demo reads from an AnalysisRun.
type Analysis struct {
	// Revision is the Rollout's, from 1; 0 for no AnalysisRun.
	Revision int
	// Phase is v1alpha1.AnalysisPhaseFailed, say, and Message why.
	Phase, Message string
	// Good, Bad, Unclear and Errors count its measurements by their outcome:
	// successful, failed, inconclusive, and not possible.
	Good, Bad, Unclear, Errors int32
	// Last is the value of the latest measurement.
	Last string
}

// Measurements is how many there were.
func (a Analysis) Measurements() int32 { return a.Good + a.Bad + a.Unclear + a.Errors }

// analysisOf reads an AnalysisRun.
func analysisOf(run *v1alpha1.AnalysisRun) Analysis {
	// Without a number it belongs to no revision of a Rollout: 0.
	revision, _ := strconv.Atoi(run.Annotations[revisionAnnotation])
	a := Analysis{Revision: revision, Phase: string(run.Status.Phase), Message: run.Status.Message}
	for _, metric := range run.Status.MetricResults {
		a.Good += metric.Successful
		a.Bad += metric.Failed
		a.Unclear += metric.Inconclusive
		a.Errors += metric.Error
		if n := len(metric.Measurements); n > 0 {
			a.Last = metric.Measurements[n-1].Value
			if message := metric.Measurements[n-1].Message; message != "" {
				a.Last = message
			}
		}
	}
	return a
}

// String says how far the analysis has come, on one line.
func (a Analysis) String() string {
	text := fmt.Sprintf("%s after measurement %d: %s", a.Phase, a.Measurements(), a.Last)
	if a.Message != "" {
		text += ": " + a.Message
	}
	return text
}

// analysisProblems says in words how the analysis of an act differs from what was
// claimed. last is the Rollout at the end of the act.
func analysisProblems(act Act, a Analysis, last Status) []string {
	switch {
	case act.ByHand:
		return nil
	case a.Revision == 0:
		return []string{"no background analysis has run"}
	case act.CaughtAt == 0 && a.Phase != string(v1alpha1.AnalysisPhaseSuccessful):
		return []string{fmt.Sprintf("the background analysis is not successful: %s", a)}
	case act.CaughtAt == 0 && a.Good == 0:
		return []string{fmt.Sprintf("the background analysis has judged nothing: all of its %d measurements are inconclusive", a.Measurements())}
	case act.CaughtAt == 0:
		return nil
	case a.Phase != string(v1alpha1.AnalysisPhaseFailed):
		return []string{fmt.Sprintf("the background analysis has not failed: %s", a)}
	case !last.Aborted:
		return []string{fmt.Sprintf("the Rollout has not aborted, though its background analysis has failed: %s", a)}
	case a.Message == "" || !strings.Contains(last.Message, a.Message):
		return []string{fmt.Sprintf("the Rollout does not say that its analysis has aborted it, but %q; the analysis: %s", last.Message, a)}
	}
	return nil
}
