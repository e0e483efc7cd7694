package checktest

import (
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/build"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// Sample is the name of the Rollout, the HTTPScaledObject and the ScaledObject
// of examples/canary-without-agent.
const Sample = "rollouts-demo"

// KEDA is KEDA's operator as far as the check looks at it: its Deployment,
// whose image the sandbox does not have, its ServiceAccount, and the access
// that KEDA's chart gives it by default.
const KEDA = `
apiVersion: v1
kind: Namespace
metadata:
  name: keda
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: keda-operator
  namespace: keda
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: keda-operator-scaled-refs
rules:
  - apiGroups: ["*"]
    resources: ["*"]
    verbs: ["get"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: keda-operator-scaled-refs
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: keda-operator-scaled-refs
subjects:
  - kind: ServiceAccount
    name: keda-operator
    namespace: keda
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: keda-operator
  namespace: keda
  labels:
    app.kubernetes.io/name: keda-operator
spec:
  selector:
    matchLabels:
      app: keda-operator
  template:
    metadata:
      labels:
        app: keda-operator
    spec:
      serviceAccountName: keda-operator
      containers:
        - name: keda-operator
          image: ghcr.io/kedacore/keda:2.17.2
`

// SampleDirectory returns the path of examples/canary-without-agent.
func SampleDirectory(t testing.TB) string {
	t.Helper()
	root, err := build.FindRepository()
	if err != nil {
		t.Fatal(err)
	}
	return root + "/examples/canary-without-agent"
}

// DeploySample applies examples/canary-without-agent to the namespace, and KEDA to the
// cluster, and waits until the Rollout is healthy.
func DeploySample(t testing.TB, n *e2etest.Namespace) {
	t.Helper()
	n.Apply(KEDA)
	n.Kubectl("apply", "-k", SampleDirectory(t))
	n.AwaitHealthy(Sample, e2etest.Image("blue"))
}

// StartSample sets a new image and waits until the canary is paused at its
// first weight, 20.
func StartSample(t testing.TB, n *e2etest.Namespace) {
	t.Helper()
	n.SetImage(Sample, e2etest.Image("yellow"))
	n.AwaitPaused(Sample, 1)
	n.AwaitSplit(Sample, SampleSplit(20))
}

// SampleSplit is the split that the sample's Rollout sets at a weight.
func SampleSplit(weight int) e2etest.Split { return e2etest.App{Name: Sample}.Split(weight) }
