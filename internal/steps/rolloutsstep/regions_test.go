package rolloutsstep

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
)

// twoClusters are this cluster, which has the Secret, and another one.
type twoClusters struct {
	t           *testing.T
	here, there *apiservertest.Server
	regions     *regions
	// wide is whether the other cluster's tokens reach all namespaces.
	wide bool

	mu     sync.Mutex
	tokens []string
	// ahead is how far the clock is ahead.
	ahead time.Duration
}

var eu = Cluster{Name: "eu", Secret: "region-eu"}

func newTwoClusters(t *testing.T) *twoClusters {
	c := &twoClusters{t: t, here: apiservertest.New(t), there: apiservertest.NewTLS(t), wide: true, tokens: []string{"token-1"}}
	c.there.SetFault(c.authenticate)
	c.regions = newRegions(Options{
		Connect: c.here.Config, Logger: hclog.NewNullLogger(),
		RegionOptions: RegionOptions{AllowAddresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, SecretsNamespace: "argo-rollouts"},
	})
	c.regions.wait = 10 * time.Second // on a busy machine, too
	c.regions.now = func() time.Time {
		c.mu.Lock()
		defer c.mu.Unlock()
		return time.Now().Add(c.ahead)
	}
	t.Cleanup(c.regions.close)
	c.secret(c.kubeconfig("token-1", ""))
	return c
}

// authenticate answers as an API server does to a token that it does not know, and to one
// that is for some namespaces alone.
func (c *twoClusters) authenticate(w http.ResponseWriter, r *http.Request, request apiservertest.Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case !slices.Contains(c.tokens, token):
		apiservertest.Unauthorized(w, request)
	case !c.wide && !slices.Contains([]string{"demo", "shop"}, request.Namespace):
		apiservertest.Forbidden(w, request)
	default:
		return false
	}
	return true
}

// pass lets time pass.
func (c *twoClusters) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

func (c *twoClusters) accept(tokens ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tokens = tokens
}

// kubeconfig returns one for the other cluster, with more keys of its user.
func (c *twoClusters) kubeconfig(token, user string) map[string][]byte {
	text := strings.Replace(c.there.Kubeconfig(), "user: {}", "user: {token: "+token+user+"}", 1)
	return map[string][]byte{"kubeconfig": []byte(strings.Replace(text, "cluster: {server", fmt.Sprintf("cluster: {certificate-authority-data: %s, server", base64Of(c.there.CA())), 1))}
}

func (c *twoClusters) secret(data map[string][]byte) {
	c.here.PutObject("secrets", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "argo-rollouts", Name: "region-eu"}, Data: data})
}

func (c *twoClusters) rollout(namespace, name, message string) {
	c.there.PutObject("rollouts", &v1alpha1.Rollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Status:     v1alpha1.RolloutStatus{Message: message},
	})
}

func (c *twoClusters) view(namespaces ...string) regionView {
	return c.regions.view(c.t.Context(), eu, []string{"127.0.0.1"}, namespaces)
}

// await looks until a view is as wanted: its Rollouts with their messages, and how the reason
// begins why it does not answer.
func (c *twoClusters) await(want string, namespaces ...string) regionView {
	c.t.Helper()
	var got string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		v := c.view(namespaces...)
		if got = text(v); got == want || strings.Contains(want, "unreachable: ") && strings.HasPrefix(got, want) {
			return v
		}
	}
	c.t.Fatalf("the view is\n%q, want\n%q", got, want)
	return regionView{}
}

func text(v regionView) string {
	var all []string
	for _, r := range v.Rollouts {
		all = append(all, strings.TrimSuffix(r.Namespace+"/"+r.Name+" "+r.Content.Message, " "))
	}
	slices.Sort(all)
	if v.Unreachable != "" {
		all = append(all, "unreachable: "+v.Unreachable)
	}
	return strings.Join(all, "; ")
}

func requests(of *apiservertest.Server) string {
	var all []string
	for _, r := range of.Requests() {
		all = append(all, r.String())
	}
	return strings.Join(all, "; ")
}

func TestAllStepsShareOneWatchOfARegion(t *testing.T) {
	c := newTwoClusters(t)
	c.rollout("demo", "a", "one")
	c.rollout("shop", "b", "two")
	var steps sync.WaitGroup
	for range 20 {
		steps.Go(func() {
			if got := text(c.view("demo", "shop")); got != "demo/a one; shop/b two" {
				t.Errorf("the view is %q", got)
			}
		})
	}
	steps.Wait()
	if got, want := requests(c.there), "list rollouts; watch rollouts"; got != want {
		t.Errorf("the region had %q, want %q", got, want)
	}
	if got, want := requests(c.here), "list secrets argo-rollouts; watch secrets argo-rollouts"; got != want {
		t.Errorf("this cluster had %q, want %q", got, want)
	}
	c.rollout("demo", "a", "changed")
	c.await("demo/a changed", "demo")
	if got := c.view("demo"); got.Name != "eu" || len(got.Rollouts) != 1 {
		t.Errorf("%+v", got)
	}
	if got := requests(c.there) + requests(c.here); got != "" {
		t.Errorf("steps that wait send %q", got)
	}
}

// A token for some namespaces has a watch for each.
func TestTokenForSomeNamespaces(t *testing.T) {
	c := newTwoClusters(t)
	c.wide = false
	c.rollout("demo", "a", "one")
	c.rollout("shop", "b", "two")
	c.rollout("other", "c", "three")
	if got := text(c.view("demo", "shop")); got != "demo/a one; shop/b two" {
		t.Errorf("the view is %q", got)
	}
	if got, want := requests(c.there), "list rollouts; list rollouts demo; watch rollouts demo; list rollouts shop; watch rollouts shop"; got != want {
		t.Errorf("the region had %q, want %q", got, want)
	}
	for range 3 {
		c.view("demo", "shop")
	}
	if got := requests(c.there); got != "" {
		t.Errorf("steps that wait send %q", got)
	}
	v := c.view("demo", "other")
	if got := text(v); !strings.HasPrefix(got, "demo/a one; unreachable: ") || !strings.Contains(got, "the credentials of Secret argo-rollouts/region-eu do not suffice (deploy/rbac-regions/region.yaml has what they need): rollouts is forbidden: cannot list") {
		t.Errorf("the view of a namespace that is not granted is %q", got)
	}
}

// A token is revoked: what was seen is not forgotten. Another one is put into the Secret: the
// region answers again, without a restart.
func TestTokenIsRevokedAndReplaced(t *testing.T) {
	c := newTwoClusters(t)
	c.rollout("demo", "a", "one")
	c.await("demo/a one", "demo")
	before := time.Now()
	c.accept("token-2")
	c.there.EndWatches()
	v := c.await("demo/a one; unreachable: it does not accept the credentials of Secret argo-rollouts/region-eu (401): put a new token there", "demo")
	if v.Since.Before(before) || v.Since.After(time.Now()) {
		t.Errorf("since %s, want a time after %s", v.Since, before)
	}
	if again := c.view("demo"); again.Since != v.Since {
		t.Errorf("since %s, and later since %s", v.Since, again.Since)
	}
	c.rollout("demo", "a", "two")
	c.secret(c.kubeconfig("token-2", ""))
	if v := c.await("demo/a two", "demo"); !v.Since.IsZero() {
		t.Errorf("%+v", v)
	}
	requests(c.there)
	c.secret(c.kubeconfig("token-2", "")) // as it was
	c.view("demo")
	if got := requests(c.there); got != "" {
		t.Errorf("a Secret that has the same credentials costs %q", got)
	}
}

// A certificate that is not verified leads to the Secret that has the CA.
func TestCertificateIsNotVerified(t *testing.T) {
	c := newTwoClusters(t)
	text := string(c.kubeconfig("token-1", "")["kubeconfig"])
	c.secret(map[string][]byte{"kubeconfig": []byte(strings.Replace(text, "cluster: {", "cluster: {tls-server-name: other.test, ", 1))})
	c.await("unreachable: its certificate is none by the CA of Secret argo-rollouts/region-eu, for the host there: put the API server's CA and host there: x509: ", "demo")
}

func TestRegionIsAwayAndBack(t *testing.T) {
	c := newTwoClusters(t)
	c.rollout("demo", "a", "one")
	c.await("demo/a one", "demo")
	c.there.SetFault(func(w http.ResponseWriter, _ *http.Request, request apiservertest.Request) bool {
		apiservertest.Fail(w, http.StatusServiceUnavailable, request)
		return true
	})
	c.there.EndWatches()
	c.await("demo/a one; unreachable: Service Unavailable", "demo")
	c.rollout("demo", "a", "two")
	c.there.SetFault(nil)
	c.await("demo/a two", "demo")
}

// Each answer that is none says what to do, and a redirect is not followed.
func TestWhyARegionDoesNotAnswer(t *testing.T) {
	for want, answer := range map[string]func(http.ResponseWriter, *http.Request, apiservertest.Request){
		"it serves no Rollouts: install Argo Rollouts there": func(w http.ResponseWriter, r *http.Request, _ apiservertest.Request) { http.NotFound(w, r) },
		"Too Many Requests": func(w http.ResponseWriter, _ *http.Request, request apiservertest.Request) {
			apiservertest.Fail(w, http.StatusTooManyRequests, request)
		},
		"https://127.0.0.1:": func(w http.ResponseWriter, r *http.Request, _ apiservertest.Request) {
			http.Redirect(w, r, "https://169.254.169.254/", http.StatusFound)
		},
	} {
		c := newTwoClusters(t)
		c.rollout("demo", "a", "one")
		c.there.SetFault(func(w http.ResponseWriter, r *http.Request, request apiservertest.Request) bool {
			answer(w, r, request)
			return true
		})
		if got := c.view("demo").Unreachable; !strings.HasPrefix(got, want) || strings.HasPrefix(got, "https") && !strings.HasSuffix(got, "answered with a redirect (302), which is not followed") {
			t.Errorf("unreachable: %s\nwant %s", got, want)
		}
		c.there.SetFault(nil)
		c.await("demo/a one", "demo")
	}
}

// An API server that takes requests and does not answer holds a check once, and not for long.
func TestRegionThatHangs(t *testing.T) {
	c := newTwoClusters(t)
	c.regions.wait = 500 * time.Millisecond
	c.rollout("demo", "a", "one")
	release := make(chan struct{})
	c.there.SetFault(func(_ http.ResponseWriter, r *http.Request, _ apiservertest.Request) bool {
		select {
		case <-release:
		case <-r.Context().Done():
		}
		return false
	})
	begun := time.Now()
	v := c.await("unreachable: it has not answered yet", "demo")
	if v.Since.Before(begun) || v.Since.After(time.Now()) {
		t.Errorf("since %s", v.Since)
	}
	c.regions.wait = time.Hour // whoever waits again now waits for long
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 100 {
			c.view("demo")
		}
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("a check waits for a region again that has not answered")
	}
	close(release)
	c.await("demo/a one", "demo")
}

// What a message of the region's API server says of a token is hidden.
func TestReasonHidesTheToken(t *testing.T) {
	c := newTwoClusters(t)
	c.there.SetFault(func(w http.ResponseWriter, _ *http.Request, _ apiservertest.Request) bool {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "who is token-1?", "code": 500}`)
		return true
	})
	c.await("unreachable: who is ***?", "demo")
}

// A region that no step asks for is forgotten, with its watches.
func TestRegionIsForgotten(t *testing.T) {
	c := newTwoClusters(t)
	c.rollout("demo", "a", "one")
	c.await("demo/a one", "demo")
	c.pass(regionIdle - time.Minute)
	c.regions.sweep()
	if count := len(c.regions.known); count != 1 {
		t.Fatalf("%d regions are known a minute before the time is over, want 1", count)
	}
	c.pass(2 * time.Minute)
	c.regions.sweep()
	if count := len(c.regions.known); count != 0 {
		t.Fatalf("%d regions are known", count)
	}
	for deadline := time.Now().Add(time.Minute); c.there.Watches()+c.here.Watches() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("watches go on")
		}
	}
	requests(c.there)
	c.await("demo/a one", "demo")
	if got, want := requests(c.there), "list rollouts; watch rollouts"; got != want {
		t.Errorf("the region had %q, want %q", got, want)
	}
}

// An interval that is longer than some minutes does not begin the watch anew, and with it the
// minute after which a region counts as away.
func TestRegionIsNotForgottenBetweenTwoChecks(t *testing.T) {
	c := newTwoClusters(t)
	c.accept()
	v := c.await("unreachable: it does not accept the credentials", "demo")
	for range 3 {
		c.pass(6 * time.Hour)
		c.regions.sweep()
		if again := c.view("demo"); again.Since != v.Since {
			t.Fatalf("away since %s, and later since %s", v.Since, again.Since)
		}
	}
}

// What the watch has shown after the last check counts too, when the Secret takes it away.
func TestTheLastThatAWatchHasShown(t *testing.T) {
	c := newTwoClusters(t)
	c.rollout("demo", "a", "one")
	v := c.await("demo/a one", "demo")
	c.rollout("demo", "a", "two")
	of := c.regions.known[regionKey{"region-eu", "127.0.0.1"}]
	for deadline := time.Now().Add(time.Minute); of.connection.whole.rollouts.Seen("demo")[0] == v.Rollouts[0]; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the watch does not show the change")
		}
	}
	c.here.Delete("secrets", "argo-rollouts", "region-eu")
	for deadline := time.Now().Add(time.Minute); len(of.secrets.Seen("argo-rollouts")) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the Secret is still seen")
		}
	}
	if got, want := text(c.view("demo")), "demo/a two; unreachable: Secret argo-rollouts/region-eu does not exist: create it"; got != want {
		t.Errorf("the view is %q, want %q", got, want)
	}
}

// A check that began with credentials that have been replaced meanwhile leaves no watch.
func TestReplacedCredentialsLeaveNoWatch(t *testing.T) {
	c := newTwoClusters(t)
	c.wide = false
	c.await("", "demo")
	of := c.regions.known[regionKey{"region-eu", "127.0.0.1"}]
	before := of.connection
	c.accept("token-1", "token-2")
	c.secret(c.kubeconfig("token-2", ""))
	for deadline := time.Now().Add(time.Minute); of.connection == before; time.Sleep(10 * time.Millisecond) {
		if c.view("demo"); time.Now().After(deadline) {
			t.Fatal("the credentials are not replaced")
		}
	}
	c.regions.wait = 2 * time.Second
	if _, why := of.watch(t.Context(), before, "shop").unreachable(t.Context()); why == nil {
		t.Error("a watch runs with credentials that have been replaced")
	}
}

func replicaSet(name, image string) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"namespace": "demo", "name": name},
		"spec": map[string]any{"template": map[string]any{
			"spec": map[string]any{"containers": []any{map[string]any{"name": "app", "image": image}}},
		}},
	}
}

// imagesOf returns the images of a ReplicaSet, as text.
func (v regionView) imagesOf(t *testing.T, replicaSet string) string {
	images, err := v.images(t.Context(), "demo", replicaSet)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(images)
}

// The images of a Rollout with a workloadRef are those of its ReplicaSet, which is asked for
// once.
func TestImagesOfAReplicaSetAreReadOnce(t *testing.T) {
	c := newTwoClusters(t)
	asked := func(want int) {
		t.Helper()
		if got := strings.Count(requests(c.there), "get replicasets demo/a-1"); got != want {
			t.Errorf("%d requests for a ReplicaSet, want %d", got, want)
		}
	}
	for range 3 {
		if got, want := c.view("demo").imagesOf(t, "a-1"), "ReplicaSet demo/a-1 does not exist there"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	asked(1)
	c.there.PutObject("replicasets", replicaSet("a-1", "app:v2"))
	c.pass(imagesRetry)
	for range 3 {
		if got, want := c.view("demo").imagesOf(t, "a-1"), "map[app:app:v2]"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	asked(1)
	// While the region does not answer, what was read counts, and nothing else is read.
	c.accept()
	c.there.EndWatches()
	v := c.await("unreachable: it does not accept the credentials", "demo")
	requests(c.there)
	if got, want := v.imagesOf(t, "a-1")+" "+v.imagesOf(t, "a-2"), "map[app:app:v2] "+errNotRead.Error(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := requests(c.there); strings.Contains(got, "replicasets") {
		t.Errorf("a region that does not answer had %q", got)
	}
}

// A server that hangs holds a check once, however many ReplicaSets there are.
func TestReplicaSetsOfAServerThatHangs(t *testing.T) {
	c := newTwoClusters(t)
	c.there.SetFault(func(_ http.ResponseWriter, r *http.Request, _ apiservertest.Request) bool {
		hangs := strings.Contains(r.URL.Path, "/replicasets/")
		if hangs {
			<-r.Context().Done()
		}
		return hangs
	})
	c.await("", "demo")
	c.regions.wait = time.Second
	v, begun := c.view("demo"), time.Now()
	for i := range 60 {
		if got := v.imagesOf(t, fmt.Sprintf("a-%d", i)); got == "map[]" {
			t.Errorf("images of a ReplicaSet that is not there")
		}
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("a check is held for %s", took)
	}
}
