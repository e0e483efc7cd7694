package rolloutsplugin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestARequestFails(t *testing.T) {
	request := Request{
		Verb: "patch", Object: "HTTPRoute demo/app", Resource: "httproutes.gateway.networking.k8s.io", Kept: "the route",
		Role: "argo-rollouts-gatewayapi", Manifests: "deploy/gatewayapi", Timeout: 10 * time.Second,
	}
	resource := schema.GroupResource{Group: "gateway.networking.k8s.io", Resource: "httproutes"}
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"forbidden":    {apierrors.NewForbidden(resource, "app", errors.New("no")), "HTTPRoute demo/app: the controller's ServiceAccount may not patch httproutes.gateway.networking.k8s.io: apply ClusterRole argo-rollouts-gatewayapi and bind it to that ServiceAccount (deploy/gatewayapi): "},
		"unauthorized": {apierrors.NewUnauthorized("who"), "HTTPRoute demo/app: patch: the API server does not accept the controller's credentials: "},
		"too late":     {fmt.Errorf("patch: %w", context.DeadlineExceeded), "HTTPRoute demo/app: patch: no answer from the API server within 10s; the route stays as it is, the controller retries: "},
		"conflict":     {apierrors.NewConflict(resource, "app", errors.New("changed")), "HTTPRoute demo/app: patch: it keeps being changed by others; the controller retries: "},
		"invalid":      {apierrors.NewInvalid(schema.GroupKind{Kind: "HTTPRoute"}, "app", nil), "HTTPRoute demo/app: patch: the API server does not take it as it would have to be; the route stays as it is: "},
		"too busy":     {apierrors.NewTooManyRequests("busy", 30), "HTTPRoute demo/app: patch: the API server is too busy, and asks to come back in 30 s; the route stays as it is, the controller retries: "},
		"any other":    {errors.New("EOF"), "HTTPRoute demo/app: patch failed; the route stays as it is, the controller retries: "},
	} {
		t.Run(name, func(t *testing.T) {
			got := request.Failed(tc.err)
			if !strings.HasPrefix(got.Error(), tc.want) || !errors.Is(got, tc.err) {
				t.Errorf("%v, want one that begins with %q and wraps %v", got, tc.want, tc.err)
			}
		})
	}
}
