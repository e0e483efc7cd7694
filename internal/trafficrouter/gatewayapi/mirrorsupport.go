package gatewayapi

import (
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// mirrorSupport knows whether the HTTPRoutes of the cluster have the field percent of
// a mirror. It assumes so until the API server drops the field from a route that was
// written with it.
type mirrorSupport struct{ lacksPercent atomic.Bool }

func (m *mirrorSupport) knowsPercent() bool { return !m.lacksPercent.Load() }

// learn compares a route as the API server has stored it with what was sent, and tells
// whether the API server has dropped a percentage.
func (m *mirrorSupport) learn(written, sent *unstructured.Unstructured) (lost bool) {
	lost = mirrorPercents(sent) > mirrorPercents(written)
	if lost {
		m.lacksPercent.Store(true)
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
