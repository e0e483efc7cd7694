package gatewayapi

import (
	"errors"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// askAgain is when a percentage is tried again after the API server has dropped one: the CRD
// may have been updated.
const askAgain = 10 * time.Minute

var errMirrorPercent = errors.New("the API server has dropped the percentage of a mirror")

// mirrorSupport knows whether the HTTPRoutes of the cluster have the field percent of
// a mirror. It assumes so until the API server drops the field from a route that was
// written with it, and again ten minutes after that.
type mirrorSupport struct{ dropped atomic.Pointer[time.Time] }

func (m *mirrorSupport) knowsPercent() bool {
	at := m.dropped.Load()
	return at == nil || time.Since(*at) >= askAgain
}

// learn compares a route as the API server has stored it with what was sent, and tells
// whether the API server has dropped a percentage.
func (m *mirrorSupport) learn(written, sent *unstructured.Unstructured) (lost bool) {
	lost = mirrorPercents(sent) > mirrorPercents(written)
	if lost {
		now := time.Now()
		m.dropped.Store(&now)
	}
	return lost
}

// mirrorPercents counts the mirrors of a route that have a percentage.
func mirrorPercents(route *unstructured.Unstructured) (count int) {
	spec, _ := route.Object["spec"].(map[string]any)
	for _, rule := range objects(spec["rules"]) {
		for _, filter := range objects(rule["filters"]) {
			mirror, _ := filter["requestMirror"].(map[string]any)
			if _, ok := mirror["percent"]; ok {
				count++
			}
		}
	}
	return count
}
