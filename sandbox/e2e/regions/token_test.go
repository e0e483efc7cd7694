package regions

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// A token is revoked while a step waits: the step says so. Another one takes its place in
// the Secret, and the step goes on without a restart of the controller.
func TestTokenRevokedThenReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name, r := w.home.Name, newRelay(t, apiServers()[eu])
	put := func() *clientcmdapi.Config {
		config := w.tokenKubeconfig(eu, r.address, w.namespaceToken(eu))
		w.home.Apply(kubeconfigSecret(name, config))
		return config
	}
	first := put()
	w.home.Apply(preset(name, []string{r.address}, []string{fmt.Sprintf("{name: eu, secret: %s}", name)}, ""))
	w.both(func(n *e2etest.Namespace) { n.Apply(rollout("app", meeting(name))) })
	w.both(func(n *e2etest.Namespace) { n.AwaitHealthy("app", e2etest.Image("blue")) })
	release(w.home, "app", "yellow")
	w.home.AwaitPaused("app", pausedStep)
	w.home.Promote("app")
	awaitWaiting(w.home, "app", meetingStep, "app in eu", "blue")

	w.eu.Kubectl("delete", "serviceaccount", "reader")
	awaitRefused(t, first)
	r.cut() // a watch that has begun goes on
	awaitWaiting(w.home, "app", meetingStep, "eu has not answered", "(401)", "put a new token there")

	put()
	awaitWaiting(w.home, "app", meetingStep, "app in eu", "blue")
	w.eu.PatchRollout("app", `{"spec": {"strategy": {"canary": {"steps": []}}}}`)
	release(w.eu, "app", "yellow")
	w.home.AwaitHealthy("app", e2etest.Image("yellow"))
}

// awaitRefused waits until an API server takes a kubeconfig's token no more: it remembers for
// some seconds that a token is good.
func awaitRefused(t *testing.T, kubeconfig *clientcmdapi.Config) {
	t.Helper()
	config, err := clientcmd.NewDefaultClientConfig(*kubeconfig, nil).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	e2etest.Eventually(t, e2etest.Patience, "the token is refused", func(ctx context.Context) error {
		_, err := client.RESTClient().Get().AbsPath("/api").DoRaw(ctx)
		if apierrors.IsUnauthorized(err) {
			return nil
		}
		return errors.Join(errors.New("it is not"), err)
	})
}
