package rolloutsstep

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/bound"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/clusteraccess"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/outbound"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/secret"
)

const (
	// reasonLimit bounds why a region does not answer, in bytes.
	reasonLimit = 240
	// maxImages bounds the ReplicaSets of a region whose images are kept.
	maxImages = 1000
	// imagesRetry is how long a ReplicaSet is not asked for again that could not be read.
	imagesRetry = 30 * time.Second
)

// region is another cluster: the watch of the Secret that says how it is reached, and those of
// its Rollouts.
type region struct {
	regions *regions
	secret  string // its name
	hosts   outbound.Hosts
	secrets *kube.Summaries[*credentials]

	mu   sync.Mutex
	used time.Time
	// unread is why the Secret could last not be read; nil if it could.
	unread error
	// problem is why there is no connection, since when; empty if there is one.
	problem string
	since   time.Time
	// from is what connection was made from.
	from       *credentials
	connection *connection
	// last are the Rollouts of a namespace as they were last seen.
	last     map[string][]*kube.Summary[Rollout]
	failures failures
	images   map[name]imagesRead // by the ReplicaSet
}

// imagesRead are the images of a ReplicaSet, or why they could not be read.
type imagesRead struct {
	images map[string]string
	err    error
	at     time.Time
}

// credentials are what a Secret says, or what is wrong with it.
type credentials struct {
	access *clusteraccess.Access
	err    error
}

// connection is a cluster under some credentials.
type connection struct {
	connect func() (*rest.Config, error)
	objects *kube.Objects
	// whole is the watch of all namespaces. Where the token does not reach that far it is nil,
	// and there is a watch for each namespace that is asked for.
	whole       *regionWatch
	byNamespace map[string]*regionWatch
}

func newRegion(r *regions, secretName string, hosts outbound.Hosts) *region {
	g := &region{regions: r, secret: secretName, hosts: hosts, last: map[string][]*kube.Summary[Rollout]{}, images: map[name]imagesRead{}}
	g.secrets = kube.NewSummaries(r.opts.Connect, kube.SummariesOptions[*credentials]{
		Resource:  corev1.SchemeGroupVersion.WithResource("secrets"),
		Namespace: r.opts.SecretsNamespace,
		Fields:    metav1.ObjectNameField + "=" + secretName,
		Summarize: g.read,
		Answered: func(err error) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.unread = err
		},
		WithoutWatch: "the clusters of steps that wait for other regions are not known",
		Logger:       r.opts.Logger,
	})
	return g
}

// read reads a Secret's JSON. A panic, which would end the process and all its steps, makes it
// a Secret that is wrong.
func (g *region) read(object []byte) (c *credentials) {
	defer func() {
		if cause := recover(); cause != nil {
			c = &credentials{err: steps.PanicError(g.regions.opts.Logger, "while a Secret is read", cause)}
		}
	}()
	var there corev1.Secret
	if err := json.Unmarshal(object, &there); err != nil {
		return &credentials{err: errors.New("it is no Secret")} // the error may show values
	}
	access, err := clusteraccess.Read(there.Data)
	return &credentials{access, err}
}

// name names the Secret for people.
func (g *region) name() string {
	return "Secret " + g.regions.opts.SecretsNamespace + "/" + g.secret
}

func (g *region) use() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.used = g.regions.now()
}

// unusedSince tells whether no step has asked for the region since a time.
func (g *region) unusedSince(before time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.used.Before(before)
}

func (g *region) close() {
	g.secrets.Close()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.disconnect()
}

// disconnect ends the watches of Rollouts, after a last look at what they show; g.mu is held.
func (g *region) disconnect() {
	if g.connection == nil {
		return
	}
	g.endWhole(g.connection)
	for namespace, w := range g.connection.byNamespace {
		g.look(w, namespace)
		w.rollouts.Close()
	}
	g.connection = nil
}

// endWhole ends the watch of all namespaces, after a last look; g.mu is held.
func (g *region) endWhole(c *connection) {
	if c.whole == nil {
		return
	}
	for namespace := range g.last {
		g.look(c.whole, namespace)
	}
	c.whole.rollouts.Close()
	c.whole = nil
}

// view returns what is known of the Rollouts of some namespaces.
func (g *region) view(ctx context.Context, namespaces []string) regionView {
	ctx, cancel := context.WithTimeout(ctx, g.regions.wait)
	defer cancel()
	c, problem, since := g.connected(ctx)
	if c == nil {
		v := regionView{Unreachable: problem, Since: since, Failures: &g.failures, images: g.knownImages}
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, namespace := range namespaces {
			v.Rollouts = append(v.Rollouts, g.last[namespace]...)
		}
		return v
	}
	v := regionView{Failures: &g.failures, images: g.knownImages}
	for _, namespace := range namespaces {
		w := g.watch(ctx, c, namespace)
		since, why := w.unreachable(ctx)
		if why != nil && (v.Unreachable == "" || since.Before(v.Since)) {
			v.Unreachable, v.Since = g.reason(why), since
		}
		g.mu.Lock()
		v.Rollouts = append(v.Rollouts, g.look(w, namespace)...)
		g.mu.Unlock()
	}
	if v.Unreachable == "" {
		over := sync.OnceValue(func() time.Time { return time.Now().Add(g.regions.wait) })
		v.images = func(ctx context.Context, namespace, replicaSet string) (map[string]string, error) {
			ctx, cancel := context.WithDeadline(ctx, over()) // a server that hangs holds a check once
			defer cancel()
			return g.readImages(ctx, c, name{namespace, replicaSet})
		}
	}
	return v
}

// connected returns the connection that the Secret describes now, or why there is none, and
// since when.
func (g *region) connected(ctx context.Context) (*connection, string, time.Time) {
	watching, err := g.secrets.Await(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	var now *credentials
	for _, found := range g.secrets.Seen(g.regions.opts.SecretsNamespace) {
		now = found.Content
	}
	switch {
	case now == nil && err != nil:
		err = fmt.Errorf("%s cannot be read: %w", g.name(), err)
	case now == nil && watching:
		err = fmt.Errorf("%s does not exist: create it", g.name())
	case now == nil && g.unread != nil:
		err = g.unreadable()
	case now == nil:
		err = fmt.Errorf("%s cannot be read: no answer yet from this cluster's API server", g.name())
	case g.connection != nil && reflect.DeepEqual(g.from, now):
		return g.connection, "", time.Time{}
	case now.err != nil:
		err = fmt.Errorf("%s: %w", g.name(), now.err)
	default:
		err = nil
	}
	var config *rest.Config
	if err == nil {
		config, err = now.access.Config(g.regions.client, g.hosts, "rollouts-plugin-step/"+g.regions.opts.Version)
	}
	g.disconnect()
	if g.from = now; err != nil {
		if g.problem == "" {
			g.since = g.regions.now()
		}
		g.problem = bound.Shorten(err.Error(), reasonLimit)
		return nil, g.problem, g.since
	}
	g.problem = ""
	connect := func() (*rest.Config, error) { return config, nil }
	g.connection = &connection{connect: connect, objects: kube.NewObjects(connect), byNamespace: map[string]*regionWatch{}}
	g.connection.whole = g.newWatch(connect, "")
	return g.connection, "", time.Time{}
}

// unreadable says why the Secret cannot be read; g.mu is held.
func (g *region) unreadable() error {
	if apierrors.IsForbidden(g.unread) {
		return fmt.Errorf("%s cannot be read: grant the controller list and watch of it (deploy/rbac-regions/secrets.yaml): %w", g.name(), g.unread)
	}
	return fmt.Errorf("%s cannot be read: %w", g.name(), g.unread)
}

// watch returns the watch that has the Rollouts of a namespace.
func (g *region) watch(ctx context.Context, c *connection, namespace string) *regionWatch {
	g.mu.Lock()
	whole := c.whole
	g.mu.Unlock()
	if whole != nil {
		if _, why := whole.unreachable(ctx); !apierrors.IsForbidden(why) {
			return whole
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.endWhole(c)
	w := c.byNamespace[namespace]
	if w == nil {
		w = g.newWatch(c.connect, namespace)
		c.byNamespace[namespace] = w
		if g.connection != c { // the credentials have been replaced meanwhile
			w.rollouts.Close()
		}
	}
	return w
}

// look returns the Rollouts of a namespace as they were last seen, by a watch or before it; g.mu
// is held.
func (g *region) look(w *regionWatch, namespace string) []*kube.Summary[Rollout] {
	if w.listed.Load() {
		g.last[namespace] = w.rollouts.Seen(namespace)
	}
	return g.last[namespace]
}

// reason says why a region does not answer.
func (g *region) reason(err error) string {
	var words string
	var failed *url.Error
	var unverified *tls.CertificateVerificationError
	switch {
	case apierrors.IsUnauthorized(err):
		words = fmt.Sprintf("it does not accept the credentials of %s (401): put a new token there", g.name())
	case apierrors.IsForbidden(err):
		words = fmt.Sprintf("the credentials of %s do not suffice (deploy/rbac-regions/region.yaml has what they need): %v", g.name(), err)
	case apierrors.IsNotFound(err):
		words = "it serves no Rollouts: install Argo Rollouts there"
	case errors.As(err, &unverified):
		words = fmt.Sprintf("its certificate is none by the CA of %s, for the host there: put the API server's CA and host there: %v", g.name(), unverified.Err)
	case errors.As(err, &failed):
		words = failed.Err.Error() // without the URL, which is long
	default:
		words = err.Error()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.from != nil && g.from.access != nil {
		var redactor secret.Redactor
		redactor.Add(g.from.access.Token)
		words = redactor.Text(words)
	}
	return bound.Shorten(strings.Join(strings.Fields(words), " "), reasonLimit)
}

var errNotRead = errors.New("the images of its ReplicaSet have not been read")

// knownImages returns the images of a ReplicaSet, without a request.
func (g *region) knownImages(_ context.Context, namespace, replicaSet string) (map[string]string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	known, is := g.images[name{namespace, replicaSet}]
	if !is || known.err != nil && g.regions.now().Sub(known.at) >= imagesRetry {
		return nil, errNotRead
	}
	return known.images, known.err
}

// readImages returns the images of a ReplicaSet. It is named after the hash of its template, so
// that each is read once.
func (g *region) readImages(ctx context.Context, c *connection, n name) (map[string]string, error) {
	if images, err := g.knownImages(ctx, n.namespace, n.name); !errors.Is(err, errNotRead) || ctx.Err() != nil {
		return images, err
	}
	var there appsv1.ReplicaSet
	read := imagesRead{at: g.regions.now()}
	if err := c.objects.Get(ctx, appsv1.SchemeGroupVersion.WithResource("replicasets"), n.namespace, n.name, &there); apierrors.IsNotFound(err) {
		read.err = fmt.Errorf("ReplicaSet %s does not exist there", n)
	} else if err != nil {
		read.err = fmt.Errorf("ReplicaSet %s cannot be read: %s", n, g.reason(err))
	} else {
		read.images, read.err = imagesByContainer(&there.Spec.Template)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.images) >= maxImages {
		clear(g.images)
	}
	g.images[n] = read
	return read.images, read.err
}

// newWatch begins the watch of a namespace's Rollouts, or of all where it is empty.
func (g *region) newWatch(connect func() (*rest.Config, error), namespace string) *regionWatch {
	w := &regionWatch{begun: g.regions.now(), now: g.regions.now, wait: g.regions.wait}
	w.rollouts = kube.NewSummaries(connect, kube.SummariesOptions[Rollout]{
		Resource:     v1alpha1.RolloutGVR,
		Namespace:    namespace,
		Summarize:    readRegionRollout,
		Changed:      g.failures.changed,
		Answered:     w.answered,
		WithoutWatch: "steps wait for the region of " + g.name(),
		Logger:       g.regions.opts.Logger.With("secret", g.secret),
	})
	return w
}
