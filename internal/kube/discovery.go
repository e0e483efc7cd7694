package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

const (
	// discoverEvery is how often the cluster is asked again what it serves.
	discoverEvery = 10 * time.Minute
	// discoverAtMost is the minimum time between two discoveries that are made because
	// something was not found.
	discoverAtMost = 5 * time.Second
	// discoveryTimeout bounds one discovery. Callers wait no longer than their own
	// context allows.
	discoveryTimeout = 10 * time.Second
)

// NotServedError says that the cluster does not serve a kind in any version.
type NotServedError struct {
	Group, Kind string
}

// Error returns the message, which says what to do.
func (e *NotServedError) Error() string {
	return fmt.Sprintf("kind %s of %s is not served by this cluster: install its CRD", e.Kind, e.Group)
}

// discovery knows in which versions a cluster serves the kinds of one API group.
type discovery struct {
	connection func() (rest.Interface, error)
	group      string
	atMost     time.Duration
	// learned is called after each successful discovery.
	learned func()

	mu sync.Mutex
	// versions are those of the group, the cluster's preferred one first.
	versions []string
	// kinds has the resource name of each kind, by version. A version that could not be
	// read keeps its previous kinds.
	kinds map[string]map[string]string
	// unknown is why a version could not be read in the last discovery.
	unknown error
	known   bool // whether the cluster has answered at all
	asked   time.Time
	flight  *flight
}

// flight is one discovery in progress, which any number of callers wait for.
type flight struct {
	done chan struct{}
	err  error
}

// lookup returns the resource of a kind, in the first version that serves it, according
// to the last discovery. It makes no request.
func (d *discovery) lookup(kind string) (schema.GroupVersionResource, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, version := range d.versions {
		if resource, ok := d.kinds[version][kind]; ok {
			return schema.GroupVersionResource{Group: d.group, Version: version, Resource: resource}, nil
		}
	}
	if d.unknown != nil {
		return schema.GroupVersionResource{}, d.unknown
	}
	return schema.GroupVersionResource{}, &NotServedError{Group: d.group, Kind: kind}
}

// inVersion returns the resource of a kind in one version.
func (d *discovery) inVersion(version, kind string) (schema.GroupVersionResource, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	resource, ok := d.kinds[version][kind]
	return schema.GroupVersionResource{Group: d.group, Version: version, Resource: resource}, ok
}

// find is lookup that waits for the first discovery. If the last one does not have the
// kind and again is true, find starts another in the background, at most every few
// seconds.
func (d *discovery) find(ctx context.Context, kind string, again bool) (schema.GroupVersionResource, error) {
	if !d.answered() {
		if err := d.ask(ctx); err != nil {
			return schema.GroupVersionResource{}, err
		}
		return d.lookup(kind)
	}
	resource, err := d.lookup(kind)
	if err != nil && again && d.due() {
		d.begin()
	}
	return resource, err
}

func (d *discovery) answered() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known
}

// due tells whether the cluster may be asked again because something was not found.
func (d *discovery) due() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Since(d.asked) >= d.atMost
}

// refresh asks the cluster because something was not found, unless it has been
// asked a moment ago.
func (d *discovery) refresh(ctx context.Context) error {
	if !d.due() {
		return nil
	}
	return d.ask(ctx)
}

// ask asks the cluster what it serves, or waits for the discovery that is under way. It
// is an error when nothing is learned.
func (d *discovery) ask(ctx context.Context) error {
	current := d.begin()
	select {
	case <-current.done:
		return current.err
	case <-ctx.Done():
		return fmt.Errorf("finding out which versions of %s this cluster serves: %w", d.group, ctx.Err())
	}
}

// begin starts a discovery, unless one is under way, and returns the one that is under
// way.
func (d *discovery) begin() *flight {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.flight == nil {
		d.flight = &flight{done: make(chan struct{})}
		go d.fly(d.flight)
	}
	return d.flight
}

func (d *discovery) fly(current *flight) {
	ctx, cancel := context.WithTimeout(context.Background(), discoveryTimeout)
	defer cancel()
	err := d.learn(ctx)
	if err == nil {
		d.learned()
	} else {
		current.err = fmt.Errorf("finding out which versions of %s this cluster serves: %w", d.group, err)
	}
	d.mu.Lock()
	d.flight, d.asked = nil, time.Now()
	d.mu.Unlock()
	close(current.done)
}

func (d *discovery) learn(ctx context.Context) error {
	client, err := d.connection()
	if err != nil {
		return err
	}
	versions, err := servedVersions(ctx, client, d.group)
	if err != nil {
		return err
	}
	d.mu.Lock()
	before := maps.Clone(d.kinds)
	d.mu.Unlock()
	kinds := map[string]map[string]string{}
	var failed []error
	for _, version := range versions {
		kinds[version], err = servedKinds(ctx, client, d.group, version)
		if err != nil {
			failed = append(failed, fmt.Errorf("version %s of %s: %w", version, d.group, err))
			kinds[version] = before[version]
		}
	}
	if len(versions) > 0 && len(failed) == len(versions) {
		return errors.Join(failed...)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.versions, d.kinds, d.unknown, d.known = versions, kinds, errors.Join(failed...), true
	return nil
}

// ServedKinds returns the resources of the kinds of a group that a cluster serves, each
// in the first version that has it, the preferred version before others; none when the
// cluster does not have the group. It asks the API server each time.
func ServedKinds(ctx context.Context, client rest.Interface, group string) (map[string]schema.GroupVersionResource, error) {
	versions, err := servedVersions(ctx, client, group)
	if err != nil {
		return nil, fmt.Errorf("finding out which versions of %s this cluster serves: %w", group, err)
	}
	served := map[string]schema.GroupVersionResource{}
	for _, version := range versions {
		kinds, err := servedKinds(ctx, client, group, version)
		if err != nil {
			return nil, fmt.Errorf("version %s of %s: %w", version, group, err)
		}
		for kind, resource := range kinds {
			if _, known := served[kind]; !known {
				served[kind] = schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
			}
		}
	}
	return served, nil
}

// servedVersions returns the versions of a group, the preferred one first, and
// none when the cluster does not have the group.
func servedVersions(ctx context.Context, client rest.Interface, group string) ([]string, error) {
	text, err := body(once(client.Get()).AbsPath("/apis", group).Do(ctx))
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var served metav1.APIGroup
	if err := json.Unmarshal(text, &served); err != nil {
		return nil, err
	}
	versions := make([]string, 0, len(served.Versions))
	for _, version := range served.Versions {
		if version == served.PreferredVersion {
			versions = slices.Insert(versions, 0, version.Version)
		} else {
			versions = append(versions, version.Version)
		}
	}
	return versions, nil
}

// servedKinds returns the resource names of the kinds of one version of a group,
// and none when the cluster does not have the version (any more).
func servedKinds(ctx context.Context, client rest.Interface, group, version string) (map[string]string, error) {
	resources, err := servedResources(ctx, client, schema.GroupVersion{Group: group, Version: version})
	if resources == nil {
		return nil, err
	}
	kinds := map[string]string{}
	for _, resource := range resources {
		kinds[resource.Kind] = resource.Name
	}
	return kinds, nil
}

// servedResources returns the resources of a version, without those below other resources;
// nil when the cluster does not have the version.
func servedResources(ctx context.Context, client rest.Interface, version schema.GroupVersion) ([]metav1.APIResource, error) {
	path := []string{"/apis", version.Group, version.Version}
	if version.Group == "" {
		path = []string{"/api", version.Version}
	}
	text, err := body(once(client.Get()).AbsPath(path...).Do(ctx))
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var served metav1.APIResourceList
	if err := json.Unmarshal(text, &served); err != nil {
		return nil, err
	}
	resources := []metav1.APIResource{}
	for _, resource := range served.APIResources {
		if !strings.Contains(resource.Name, "/") {
			resources = append(resources, resource)
		}
	}
	return resources, nil
}

func isNotServed(err error) bool {
	var notServed *NotServedError
	return errors.As(err, &notServed)
}

// IsPathUnknown tells whether the API server does not know the resource that was
// asked for, rather than the object. (client-go calls both "not found".)
func IsPathUnknown(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
