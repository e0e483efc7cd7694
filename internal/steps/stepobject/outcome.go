package stepobject

import (
	"errors"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// outcomeOf tells whether an object may have been created in spite of an error. Answers from 400
// to 499 say that it was not.
func outcomeOf(err error) steps.Outcome {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Code >= 400 && status.Status().Code < 500 && !apierrors.IsTimeout(err) {
		return steps.NotDone
	}
	return steps.MayBeDone
}

// isRefused tells whether the API server will never accept an object: it is not valid, or
// admission has refused it. A missing permission does not count, as it may be granted, nor a
// quota, in which there may be room later.
func isRefused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err) ||
		apierrors.IsForbidden(err) && !isNotGranted(err) && !IsQuota(err.Error())
}

// isNotGranted tells whether a permission is missing, rather than that admission has refused a
// request.
func isNotGranted(err error) bool {
	return apierrors.IsForbidden(err) && notGranted.MatchString(err.Error())
}

// notGranted is in what the API server says of a missing permission.
var notGranted = regexp.MustCompile(` cannot [a-z]+ resource "`)

// IsQuota tells whether a quota has no room now. One that wants limits that a pod does not
// have says "failed quota".
func IsQuota(message string) bool { return strings.Contains(message, "exceeded quota") }
