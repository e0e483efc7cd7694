package contour

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/page"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/guidetest"
)

// tutorial is the page about a canary behind a Gateway.
const tutorial = "docs/tutorials/gateway.md"

// TestGatewayTutorial runs the tutorial's canary, from the creation of its namespace to the
// deletion: each command prints the output shown below it, except for ages and generated
// names, and the versions that the page shows answer the requests. In the end the route is
// as it was applied. (TestGatewayCanaryPromoted promotes the sample to its end, which the
// page leaves to the reader, and TestReleaseInstallsTheRouter installs the plugin.)
//
// It is not parallel: it applies the Gateway, to which another test adds listeners.
func TestGatewayTutorial(t *testing.T) {
	onlyContour(t, "the tutorial's Gateway is Contour's")
	guidetest.RequireNames(t, tutorial, "sandbox", "install", "restart", "clone",
		"gateway", "deploy", "deployed", "start", "paused", "weights", "count", "check", "promote", "promoted", "events", "abort", "aborted", "clean-up")
	n := e2etest.AdoptNamespace(t, sampleRollout)

	walk(t, "gateway", "deploy", "deployed")
	n.AwaitHealthy(sampleRollout, e2etest.Image("blue"))
	before := routeOf(t, n, sampleRoute)
	walk(t, "start", "paused", "weights", "count", "check")
	walk(t, "promote", "promoted", "events")
	walk(t, "abort", "aborted")
	n.AwaitAborted(sampleRollout)
	awaitRest(t, n, before)
	walk(t, "clean-up")
}

// walk runs commands of the tutorial in a clone, and compares their output with the one
// shown below each.
func walk(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		s := guidetest.Step(t, tutorial, name)
		s.Commands = "cd " + e2etest.Repository(t) + "\n" + s.Commands
		switch {
		case s.Output == "":
			e2etest.Shell(t, s.Commands)
		case strings.Contains(s.Commands, "curl"):
			requireCounts(t, s)
		default:
			guidetest.RequirePrinted(t, s)
		}
	}
}

var countOfColour = regexp.MustCompile(`(?m)^ *(\d+) ("[a-z]+")$`)

// requireCounts fails the test unless each version that the page shows, and no other,
// answers some of 100 requests. Their shares are random, and not compared.
func requireCounts(t *testing.T, s page.Step) {
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
