// Package uninstall takes back what the agent has done to the objects of users.
package uninstall

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kedify/argo-rollouts-plugin/internal/agent"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/ingress"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/kedifyproxy"
)

// settle is how long ingress controllers may take to send no more requests to kedify-proxy.
const settle = 10 * time.Second

// step is a part of it. What is done already, it leaves as it is.
type step struct {
	does string
	do   func(context.Context) error
}

// Run takes back what the agent has done, and says so. The client has no cache, and no agent
// may run meanwhile. A step is begun once the one before has been done for all objects, as
// those after it take away what that one's objects still need.
func Run(ctx context.Context, c client.Client, s *agent.Settings, out io.Writer) error {
	return run(ctx, []step{
		{"delete MutatingWebhookConfiguration " + s.WebhookConfiguration, func(ctx context.Context) error {
			configuration := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: s.WebhookConfiguration}}
			return client.IgnoreNotFound(c.Delete(ctx, configuration))
		}},
		{"give Ingresses their own backends back", func(ctx context.Context) error { return ingress.PutBack(ctx, c) }},
		{fmt.Sprintf("wait %v for ingress controllers", settle), wait},
		{"delete the agent's own Ingresses", func(ctx context.Context) error { return ingress.RemoveOwn(ctx, c) }},
		{"make triggers kedify-http again", func(ctx context.Context) error { return triggers(ctx, c, out) }},
		{"release HTTPScaledObjects", func(ctx context.Context) error { return release(ctx, c, out) }},
		{"own no field any more", func(ctx context.Context) error { return disown(ctx, c) }},
		{"delete the kedify-proxies that the agent has made", func(ctx context.Context) error { return kedifyproxy.RemoveAll(ctx, c) }},
	}, out)
}

// run does one step after the other, until one fails.
func run(ctx context.Context, steps []step, out io.Writer) error {
	for i, step := range steps {
		if err := step.do(ctx); err != nil {
			var left []string
			for _, step := range steps[i:] {
				left = append(left, step.does)
			}
			return fmt.Errorf("%w\nleft to do: %s; run it again", err, strings.Join(left, "; "))
		}
		_, _ = fmt.Fprintf(out, "done: %s\n", step.does)
	}
	return nil
}

func wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(settle):
		return nil
	}
}
