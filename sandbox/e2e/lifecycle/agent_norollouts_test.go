package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// agentObjects is a ScaledObject of a Deployment, and one of a Rollout.
const agentObjects = `
apiVersion: v1
kind: Namespace
metadata: {name: keda}
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: plain}
spec:
  scaleTargetRef: {name: plain}
  triggers:
    - {type: kedify-http, metadata: {hosts: plain.example.com, service: plain, port: "80"}}
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: canary}
spec:
  scaleTargetRef: {apiVersion: argoproj.io/v1alpha1, kind: Rollout, name: canary}
  triggers:
    - {type: kedify-http, metadata: {hosts: canary.example.com, port: "80"}}
`

// agentRollouts are the definition of Rollouts, as little of it as the API server takes.
const agentRollouts = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: rollouts.argoproj.io}
spec:
  group: argoproj.io
  names: {kind: Rollout, listKind: RolloutList, plural: rollouts, singular: rollout}
  scope: Namespaced
  versions:
    - name: v1alpha1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

const agentRollout = `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: canary}
spec: {strategy: {canary: {stableService: stable, canaryService: canary}}}
`

// The agent runs in a cluster that has no Rollouts, without its webhook even, and watches
// them when they come. (Other sandboxes have them from the start.)
func TestAgentWithoutRollouts(t *testing.T) {
	u := newUser(t)
	u.must(t, "up", "--bare", "--with", "scaledobject,httpscaledobject", "--name", "agent")
	kubectl := func(ctx context.Context, args ...string) (string, error) {
		output, err := u.command(ctx, append([]string{"exec", "--name", "agent", "--", "kubectl"}, args...)...).CombinedOutput()
		return string(output), err
	}
	apply := func(manifests string) {
		t.Helper()
		if o := u.runWithInput(t, manifests, "exec", "--name", "agent", "--", "kubectl", "apply", "-f", "-"); o.code != 0 {
			t.Fatalf("kubectl apply: %s%s", o.stdout, o.stderr)
		}
	}
	apply(agentObjects)
	agent := u.command(t.Context(), "exec", "--name", "agent", "--", e2etest.Repository(t, "bin", "agent"),
		"--namespace", "keda", "--health-address", "127.0.0.1:8081", "--metrics-address", "127.0.0.1:2223")
	log, err := os.Create(filepath.Join(u.dir("agent"), "logs", "agent.log")) // kept if the test fails
	if err != nil {
		t.Fatal(err)
	}
	agent.Stderr = log
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = agent.Process.Signal(os.Interrupt)
		_ = agent.Wait()
		_ = log.Close()
	})
	await := func(want string, args ...string) {
		t.Helper()
		e2etest.Eventually(t, e2etest.Patience, strings.Join(args, " "), func(ctx context.Context) error {
			output, err := kubectl(ctx, args...)
			if err != nil || !strings.Contains(output, want) {
				return fmt.Errorf("no %q in %s (%w)", want, output, err)
			}
			return nil
		})
	}
	await("plain:80", "get", "httpscaledobject", "plain")
	await("there is no Rollout default/canary", "get", "events")
	apply(agentRollouts)
	e2etest.Eventually(t, e2etest.Patience, "a Rollout", func(context.Context) error {
		if o := u.runWithInput(t, agentRollout, "exec", "--name", "agent", "--", "kubectl", "apply", "-f", "-"); o.code != 0 {
			return errors.New(o.stderr) // the kind is not served yet
		}
		return nil
	})
	await("stable:80", "get", "httpscaledobject", "canary")
}
