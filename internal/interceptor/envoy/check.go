package envoy

import (
	"fmt"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// MaxTimeout is the longest duration that Envoy takes, in whole seconds, as it counts in
// nanoseconds.
const MaxTimeout = 9223372035 * time.Second

// InvalidError says what Envoy would reject of an HTTPScaledObject.
type InvalidError struct {
	// Field is where it is in the object, such as spec.timeouts.responseHeader.
	Field string
	// Why says what was found and what was expected.
	Why string
}

func (e *InvalidError) Error() string { return e.Field + ": " + e.Why }

// Check returns an *InvalidError if Envoy would reject the resources of a route,
// whatever other routes there are. A table of routes that pass makes a route
// configuration that passes: its domains are different, as they are the keys of the
// table. Endpoints are not checked, as they are addresses already.
func (t *Translator) Check(r *routes.Route) error {
	if r.ResponseHeader != nil && *r.ResponseHeader > MaxTimeout {
		return &InvalidError{"spec.timeouts.responseHeader", fmt.Sprintf("%v is longer than Envoy can count; expected %v at most", *r.ResponseHeader, MaxTimeout)}
	}
	vh := routes.VirtualHost{Domain: "*"}
	for _, prefix := range r.PathPrefixes() {
		vh.Matches = append(vh.Matches, routes.Match{PathPrefix: prefix, Headers: r.Headers(), Route: r})
	}
	v := t.VirtualHost(vh)
	v.Domains = r.Hosts()
	if err := v.ValidateAll(); err != nil {
		return &InvalidError{"spec", fmt.Sprintf("its virtual host is not as Envoy's API wants it: %v", err)}
	}
	for i := range r.Backends {
		if err := t.Cluster(&r.Backends[i]).ValidateAll(); err != nil {
			return &InvalidError{"spec.scaleTargetRef", fmt.Sprintf("the cluster %s is not as Envoy's API wants it: %v", r.Backends[i].Cluster, err)}
		}
	}
	return nil
}
