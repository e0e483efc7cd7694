package check

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// callTimeout bounds one request to the API server.
const callTimeout = 10 * time.Second

// read is one answer of the cluster: a value, or why there is none. Checks get
// it whole, because "may not look" is something to report, not to stop at.
type read[T any] struct {
	Value T
	Err   *readError
}

// readError says which read failed, and why.
type readError struct {
	Verb, Resource, Namespace, Name string
	Err                             error
}

func (e *readError) Error() string {
	target := e.Resource
	if e.Name != "" {
		target += " " + e.Name
	}
	if e.Namespace != "" {
		target += " in namespace " + e.Namespace
	}
	if e.forbidden() {
		return fmt.Sprintf("need %s on %s", e.Verb, target)
	}
	return fmt.Sprintf("%s %s: %v", e.Verb, target, e.Err)
}

func (e *readError) Unwrap() error { return e.Err }

func (e *readError) forbidden() bool { return apierrors.IsForbidden(e.Err) }

// notFound is true for a get of an object that does not exist, and for any
// read of a kind that the cluster does not know.
func (e *readError) notFound() bool { return e != nil && apierrors.IsNotFound(e.Err) }

// kindMissing is true when the cluster does not know the kind: its
// CustomResourceDefinition is not installed.
func (e *readError) kindMissing() bool { return e.notFound() && e.Verb == "list" }

// couldNotLook reports a read that failed. It is a warning: nothing is known
// to be wrong.
func couldNotLook(object string, err *readError) Result {
	remedy := "try again; if it stays so, look at the API server"
	if err.forbidden() {
		resource := strings.Replace(err.Resource, "/proxy", " --subresource=proxy", 1) // pods/proxy would be a pod of that name
		remedy = fmt.Sprintf("run the check as somebody who may: kubectl auth can-i %s %s%s", err.Verb, resource, scope(err.Namespace))
	}
	return warning(object, "could not look: "+err.Error(), remedy)
}

// scope returns the flag of kubectl for a namespace; empty is all.
func scope(namespace string) string {
	if namespace == "" {
		return " --all-namespaces"
	}
	return " -n " + namespace
}

// errNotServed is why there are no objects of a kind that the cluster does not know.
var errNotServed = apierrors.NewNotFound(schema.GroupResource{}, "")

// target is a resource in the API, or one object of it.
type target struct {
	group, version, resource string
	namespace, name          string
	subresource              string
	query                    map[string]string
}

// qualified returns the resource as kubectl and RBAC name it.
func (t target) qualified() string {
	resource := t.resource
	if t.group != "" {
		resource += "." + t.group
	}
	if t.subresource != "" {
		resource += "/" + t.subresource
	}
	return resource
}

func (t target) path() string {
	segments := []string{"/api", t.version}
	if t.group != "" {
		segments = []string{"/apis", t.group, t.version}
	}
	if t.namespace != "" {
		segments = append(segments, "namespaces", t.namespace)
	}
	for _, s := range []string{t.resource, t.name, t.subresource} {
		if s != "" {
			segments = append(segments, s)
		}
	}
	return strings.Join(segments, "/")
}

func (t target) failed(verb string, err error) *readError {
	return &readError{Verb: verb, Resource: t.qualified(), Namespace: t.namespace, Name: t.name, Err: err}
}

// cluster is the thin edge to the API server. It speaks JSON over client-go's
// REST client: the typed clientset would be a third of the binary.
type cluster struct {
	client *rest.RESTClient
	host   string
}

func newCluster(cfg *rest.Config) (*cluster, error) {
	cfg = rest.CopyConfig(cfg)
	scheme := runtime.NewScheme()
	version := schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(scheme, version)
	cfg.GroupVersion = &version
	cfg.APIPath = "/api"
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	cfg.ContentType = runtime.ContentTypeJSON
	cfg.AcceptContentTypes = runtime.ContentTypeJSON
	cfg.QPS = -1
	client, err := rest.RESTClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("cluster client: %w", err)
	}
	return &cluster{client: client, host: cfg.Host}, nil
}

// reachable returns an error if the API server does not answer, or does not accept
// the credentials: then there is nothing to check.
func (c *cluster) reachable(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := c.client.Get().AbsPath("/version").Do(ctx).Error()
	switch {
	case err == nil, apierrors.IsForbidden(err):
		return nil
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server at %s does not accept these credentials: %w; log in again, or choose others with --kubeconfig and --context", c.host, err)
	default:
		return fmt.Errorf("cannot reach the API server at %s: %w; choose another with --kubeconfig and --context", c.host, err)
	}
}

// get reads one object, or, for a target without name, a list.
func get[T any](ctx context.Context, c *cluster, t target) read[T] {
	verb := "get"
	if t.name == "" {
		verb = "list"
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	request := c.client.Get().AbsPath(t.path())
	for key, value := range t.query {
		request = request.Param(key, value)
	}
	return decode[T](request.Do(ctx), t, verb)
}

// list reads the items of a list.
func list[T any](ctx context.Context, c *cluster, t target) read[[]T] {
	answer := get[struct {
		Items []T `json:"items"`
	}](ctx, c, t)
	return read[[]T]{Value: answer.Value.Items, Err: answer.Err}
}

// create posts an object and reads the answer; the check does so for access
// reviews only, which change nothing.
func create[T any](ctx context.Context, c *cluster, t target, body any) read[T] {
	data, err := json.Marshal(body)
	if err != nil {
		return read[T]{Err: t.failed("create", err)}
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return decode[T](c.client.Post().AbsPath(t.path()).SetHeader("Content-Type", runtime.ContentTypeJSON).Body(data).Do(ctx), t, "create")
}

func decode[T any](result rest.Result, t target, verb string) read[T] {
	// Error knows the Status in the body; Raw alone would not.
	if err := result.Error(); err != nil {
		return read[T]{Err: t.failed(verb, err)}
	}
	raw, err := result.Raw()
	if err != nil {
		return read[T]{Err: t.failed(verb, err)}
	}
	var value T
	if err := json.Unmarshal(raw, &value); err != nil {
		return read[T]{Err: t.failed(verb, fmt.Errorf("unreadable answer: %w", err))}
	}
	return read[T]{Value: value}
}
