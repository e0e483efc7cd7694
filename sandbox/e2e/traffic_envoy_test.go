package e2e

import (
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

// TestTrafficEnvoyKilled kills one Envoy of two, and then both. Only requests under way
// on the first may go unanswered: the other Envoy serves the rest. A restarted Envoy
// serves the split as soon as it is ready, and each change of it.
func TestTrafficEnvoyKilled(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	p := traffictest.Envoy(t, n)
	s := traffictest.StartAppBehind(t, n, 1, p)
	s.SetWeight(t, 20)
	load := traffictest.StartParallelLoad(t, p, s.Host)
	load.RequireShare("yellow", 20)

	pods := p.Pods(t)
	var killed traffictest.Outage
	killed.Add(func() {
		traffictest.Kill(t, pods[0])
		load.AwaitBoth("blue", "yellow")
		traffictest.AwaitRestart(t, pods[0])
	})
	load.RequireShare("yellow", 20)
	p.AwaitShares(t, "app", map[string]int{"stable": 80, "canary": 20})
	load.RequireShare("yellow", 20)

	load.Finish(killed.MayGoUnanswered, "blue", "yellow")

	pods = p.Pods(t)
	traffictest.Kill(t, pods...)
	traffictest.AwaitRestart(t, pods...)
	p.Await(t, s.Host, "/color")
	load = traffictest.StartLoad(t, p, s.Host)
	p.AwaitShares(t, "app", map[string]int{"stable": 80, "canary": 20})
	load.RequireShare("yellow", 20)
	s.SetWeight(t, 70)
	load.RequireShare("yellow", 70)
	load.Finish(nil, "blue", "yellow")
}

// otherBuild is an Envoy without an extension that every virtual host needs, as an Envoy
// of another build or version may be. No Service is in front of it.
const otherBuild = `---
apiVersion: v1
kind: Pod
metadata:
  name: other-build
spec:
  containers:
    - name: envoy
      image: envoyproxy/envoy:v1.40.0
      command: ["envoy"]
      args:
        - --config-path
        - /etc/envoy/envoy.yaml
        - --config-yaml
        - 'node: {metadata: {namespaces: ["$(POD_NAMESPACE)"], pod: "$(POD_NAMESPACE)/other-build"}}'
        - --disable-hot-restart
        - --disable-extensions
        - envoy.retry_priorities/envoy.retry_priorities.previous_priorities
      env:
        - name: POD_NAMESPACE
          valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
      volumeMounts:
        - {name: bootstrap, mountPath: /etc/envoy, readOnly: true}
  volumes:
    - name: bootstrap
      configMap: {name: kedify-proxy}
`

// TestTrafficEnvoyOfAnotherBuild has an Envoy refuse every route from its first
// configuration on, and an HTTPScaledObject that every Envoy would refuse. The other
// kedify-proxies get each change of a split, and the whole configuration after a restart.
// Events say which Envoy refuses what, and which object is left out and why.
func TestTrafficEnvoyOfAnotherBuild(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	p := traffictest.Envoy(t, n)
	s := traffictest.StartAppBehind(t, n, 1, p)
	n.Apply(otherBuild)
	n.AwaitEvent("HTTPScaledObject", "app", "RefusedByEnvoy", "kedify-proxy "+n.Name+"/other-build, at ", "previous_priorities", "that kedify-proxy has no routes for it")

	n.Apply(`---
apiVersion: http.keda.sh/v1alpha1
kind: HTTPScaledObject
metadata:
  name: invalid
  annotations: {httpscaledobject.keda.sh/skip-scaledobject-creation: "true"}
spec:
  hosts: [` + s.Host + `]
  pathPrefixes: [/invalid]
  scaleTargetRef: {service: stable, port: 80}
  timeouts: {responseHeader: 2562047h47m16s}
`)
	n.AwaitEvent("HTTPScaledObject", "invalid", "InvalidForEnvoy", "spec.timeouts.responseHeader: 2562047h47m16s", "expected 2562047h47m15s at most")

	s.SetWeight(t, 20)
	load := traffictest.StartParallelLoad(t, p, s.Host)
	load.RequireShare("yellow", 20)
	s.SetWeight(t, 70)
	load.RequireShare("yellow", 70)
	traffictest.Split(t, n, "app") // an abort
	p.AwaitShares(t, "app", map[string]int{"stable": 100})
	load.RequireOnly("blue")
	load.Finish(nil, "blue", "yellow")

	traffictest.Kill(t, p.Pods(t)...)
	p.Await(t, s.Host, "/color")
	n.Kubectl("delete", "pod", "other-build", "--wait=false")
	p.AwaitNoProblem(t, "app")
}
