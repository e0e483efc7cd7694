package contour

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/guidetest"
)

// guide is the document about the Gateway API router.
const guide = "docs/gatewayapi.md"

// shownOutputs is how many commands of TestGatewayGuide have their output in the guide.
const shownOutputs = 12

// TestGatewayGuide runs the guide's canary, from the creation of its namespace to the
// deletion: each command of the guide prints the output shown below it, except for ages
// and generated names, and the versions that the guide shows answer the requests. In
// the end the route is as it was applied. (TestGatewayCanaryPromoted promotes the
// sample to its end, which the guide leaves to the reader.)
//
// It is not parallel: it applies the Gateway, to which another test adds listeners.
func TestGatewayGuide(t *testing.T) {
	onlyContour(t, "the guide's Gateway is Contour's")
	n := e2etest.AdoptNamespace(t, sampleRollout)
	compared := 0
	walk := func(from, to string) { t.Helper(); compared += walkGuide(t, from, to) }

	walk("\n## 3. Deploy the sample\n", "\n## 4. Start a canary\n")
	n.AwaitHealthy(sampleRollout, e2etest.Image("blue"))
	before := routeOf(t, n, sampleRoute)
	walk("\n## 4. Start a canary\n", "\n## 5. Promote it\n")
	walk("\n## 5. Promote it\n", "\n## 6. Or abort it\n")
	walk("\n## 6. Or abort it\n", "\n## 7. Clean up\n")
	n.AwaitAborted(sampleRollout)
	awaitRest(t, n, before)
	walk("\n## 7. Clean up\n", "\nTo uninstall, ")
	if compared != shownOutputs {
		t.Errorf("%d outputs were compared, want %d", compared, shownOutputs)
	}
}

// walkGuide runs the commands between two lines of the guide, compares their output
// with the one shown below each, and returns how many outputs it has compared.
func walkGuide(t *testing.T, from, to string) (compared int) {
	t.Helper()
	for _, s := range guidetest.StepsBetween(t, guide, from, to) {
		s.Commands = "cd " + e2etest.Repository(t) + "\n" + s.Commands
		switch {
		case s.Output == "": // the output is different each time
			e2etest.Shell(t, s.Commands)
			continue
		case strings.Contains(s.Commands, "curl"):
			requireCounts(t, s)
		default:
			guidetest.RequirePrinted(t, s)
		}
		compared++
	}
	return compared
}

var countOfColour = regexp.MustCompile(`(?m)^ *(\d+) ("[a-z]+")$`)

// requireCounts fails the test unless each version that the guide shows, and no other,
// answers some of 100 requests. Their shares are random, and not compared.
func requireCounts(t *testing.T, s guidetest.Step) {
	t.Helper()
	shown := countOfColour.FindAllStringSubmatch(s.Output, -1)
	e2etest.Eventually(t, e2etest.Patience, s.Commands, func(ctx context.Context) error {
		printed, err := e2etest.TryShell(ctx, s.Commands)
		if err != nil {
			return err
		}
		var want, got []string
		all := 0
		for _, match := range shown {
			want = append(want, match[2])
		}
		for _, match := range countOfColour.FindAllStringSubmatch(printed, -1) {
			count, _ := strconv.Atoi(match[1])
			all += count
			got = append(got, match[2])
		}
		if strings.Join(got, " ") != strings.Join(want, " ") || all != 100 {
			return fmt.Errorf("want 100 answers of %q, got:\n%s", want, printed)
		}
		return nil
	})
}
