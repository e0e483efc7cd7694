package rolloutsplugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Request describes a request of a router to the API server, for the message of its
// error.
type Request struct {
	// Object names what the request is about, and Resource its resource, with the group.
	Verb, Object, Resource string
	// Kept is what stays as it is when the request fails: "the split".
	Kept string
	// Role is the ClusterRole that grants the request, and Manifests is where to find
	// it.
	Role, Manifests string
	// Timeout bounds the call that has made the request.
	Timeout time.Duration
}

// Failed returns an error that says what the failed request was for and what to do.
func (r Request) Failed(err error) error {
	after, _ := apierrors.SuggestsClientDelay(err)
	switch {
	case after > 0:
		return fmt.Errorf("%s: %s: the API server is too busy, and asks to come back in %d s; %s stays as it is, the controller retries: %w", r.Object, r.Verb, after, r.Kept, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: the controller's ServiceAccount may not %s %s: apply ClusterRole %s and bind it to that ServiceAccount (%s): %w", r.Object, r.Verb, r.Resource, r.Role, r.Manifests, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: %s: the API server does not accept the controller's credentials: %w", r.Object, r.Verb, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %s: no answer from the API server within %s; %s stays as it is, the controller retries: %w", r.Object, r.Verb, r.Timeout, r.Kept, err)
	case apierrors.IsConflict(err):
		return fmt.Errorf("%s: %s: it keeps being changed by others; the controller retries: %w", r.Object, r.Verb, err)
	case apierrors.IsInvalid(err):
		return fmt.Errorf("%s: %s: the API server does not take it as it would have to be; %s stays as it is: %w", r.Object, r.Verb, r.Kept, err)
	default:
		return fmt.Errorf("%s: %s failed; %s stays as it is, the controller retries: %w", r.Object, r.Verb, r.Kept, err)
	}
}
