package node

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// tokenMaxAge is the age at which a token is renewed at the latest.
const tokenMaxAge = 24 * time.Hour

// tokens are the ServiceAccount tokens of one pod, bound to it: they become invalid
// when the pod is deleted.
type tokens struct {
	client kubernetes.Interface
	pod    *corev1.Pod
	cache  map[tokenKey]heldToken
}

type tokenKey struct {
	audience string
	seconds  int64
}

type heldToken struct {
	token   string
	renewAt time.Time
}

// get returns a token: the cached one until its renewal is due, and also after that
// as long as it cannot be renewed.
func (t *tokens) get(ctx context.Context, p *corev1.ServiceAccountTokenProjection) (string, error) {
	key := tokenKey{audience: p.Audience, seconds: 3600}
	if p.ExpirationSeconds != nil {
		key.seconds = *p.ExpirationSeconds
	}
	held, ok := t.cache[key]
	now := time.Now()
	if ok && now.Before(held.renewAt) {
		return held.token, nil
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &key.seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: t.pod.Name, UID: t.pod.UID},
	}}
	if key.audience != "" {
		request.Spec.Audiences = []string{key.audience}
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	answer, err := t.client.CoreV1().ServiceAccounts(t.pod.Namespace).CreateToken(ctx, t.pod.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		if ok {
			t.cache[key] = heldToken{held.token, now.Add(requestTimeout)}
			return held.token, nil
		}
		return "", fmt.Errorf("token of ServiceAccount %s/%s: %w", t.pod.Namespace, t.pod.Spec.ServiceAccountName, err)
	}
	t.cache[key] = heldToken{answer.Status.Token, renewAt(now, answer.Status.ExpirationTimestamp.Time)}
	return answer.Status.Token, nil
}

// renewAt is when a token received now should be renewed: after four fifths of its
// lifetime, or after a day if that is earlier.
func renewAt(now, expires time.Time) time.Time {
	return now.Add(min(expires.Sub(now)*4/5, tokenMaxAge))
}

// nextRenewal returns when the first token is due, zero if there is none.
func (t *tokens) nextRenewal() time.Time {
	var next time.Time
	for _, held := range t.cache {
		if next.IsZero() || held.renewAt.Before(next) {
			next = held.renewAt
		}
	}
	return next
}
