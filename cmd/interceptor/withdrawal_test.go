package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/acknowledged"
	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoytest"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/freeport"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/proxy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/settings"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/watch"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/withdrawal"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// replica is one of two interceptors. All pods of a cluster have the same admin port; the
// replicas, which share an address, have different ones.
type replica struct {
	*line // to the API server
	o     *settings.Settings
	xds   *xdsServer
	log   output
}

// twoReplicas are interceptors of one Service, with lines of their own to one API server.
type twoReplicas struct {
	t    *testing.T
	api  *apiservertest.Server
	a, b *replica
	// service is the address of the Service for xDS: connections go to the replicas in
	// turn, whether these are ready or not, or to the first alone.
	service   string
	onlyFirst atomic.Bool

	client         *http.Client
	proxyPort      uint16 // of the Envoys
	stable, canary string // addresses of applications
}

// newAPI returns an API server with the Service of interceptors, whose pods have the
// address 127.0.0.1.
func newAPI(t *testing.T) *apiservertest.Server {
	t.Helper()
	api := apiservertest.New(t)
	api.Serve("core", apiservertest.Version{Name: "v1", Kinds: map[string]string{"Service": "services"}})
	api.Serve("discovery.k8s.io", apiservertest.Version{Name: "v1", Kinds: map[string]string{"EndpointSlice": "endpointslices"}})
	api.Serve("http.keda.sh", apiservertest.Version{Name: "v1alpha1", Kinds: map[string]string{"HTTPScaledObject": "httpscaledobjects"}})
	putService(api, "keda", "interceptors", "127.0.0.1:1")
	return api
}

func newReplicas(t *testing.T) *twoReplicas {
	t.Helper()
	envoytest.Path(t)
	r := &twoReplicas{t: t, api: newAPI(t), stable: says(t, "stable"), canary: says(t, "canary"), client: newClient(t, &http.Transport{DisableKeepAlives: true})}
	putService(r.api, "demo", "stable", r.stable)
	putService(r.api, "demo", "canary", r.canary)
	r.split(100)
	freeport.Set(t, &r.proxyPort)
	r.a, r.b = r.prepare(), r.prepare()
	r.run(r.a, r.b)
	r.run(r.b, r.a)
	for _, is := range []*replica{r.a, r.b} {
		r.eventually("ready, and seeing the API server", func() error { return is.answers("current") })
	}
	r.listen()
	return r
}

// prepare chooses the ports of a replica.
func (r *twoReplicas) prepare() *replica {
	r.t.Helper()
	o, err := settings.New(pflag.NewFlagSet("", pflag.ContinueOnError), func(string) (string, bool) { return "", false })
	if err != nil {
		r.t.Fatal(err)
	}
	freeport.Set(r.t, &o.ProxyPort, &o.TLSPort, &o.AdminPort, &o.MetricsPort, &o.FallbackPort, &o.XDSPort)
	o.KedifyProxy.Address, o.KedifyProxy.Port = net.IPv4(127, 0, 0, 1), r.proxyPort
	o.APIServerTimeout, o.FallbackService = 6*time.Second, "keda/interceptors"
	return &replica{o: o}
}

// run runs a replica as serve does.
func (r *twoReplicas) run(is, other *replica) {
	r.t.Helper()
	var address string
	is.line, address = newLine(r.t, strings.TrimPrefix(r.api.URL(), "http://"))
	log := slog.New(slog.NewTextHandler(&is.log, nil))
	p := proxy.New(is.o.Proxy, log)
	x, err := newXDS(is.o, p.Loads(), log, func(*routes.Table, routes.Changes) {})
	if err != nil {
		r.t.Fatal(err)
	}
	is.xds = x
	service, err := fallbackService(is.o)
	if err != nil {
		r.t.Fatal(err)
	}
	w, err := watch.New(&rest.Config{Host: "http://" + address, QPS: -1}, watch.Options{
		Log: log, AddressService: service, Renew: withdrawal.Renew(is.o.APIServerTimeout),
		Consumers: []watch.Consumer{watch.ConsumerFunc(func(table *routes.Table, _ routes.Changes) { p.SetTable(table) }), x},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	options := withdrawalOptions(is.o, p, x, w, log)
	options.Port = other.o.AdminPort
	withdrawn := withdrawal.New(options)
	registry := prometheus.NewRegistry()
	registry.MustRegister(p, x, w, withdrawn)
	admin := http.NewServeMux()
	admin.Handle("/", p.Admin(noProblems, alive))
	admin.Handle("GET "+withdrawal.Path, withdrawn)
	admin.Handle("GET "+acknowledged.Path, x.ListAcknowledged(withdrawn.Lost))
	ls, err := listen(r.t.Context(), is.o, p, admin, nil, x, registry, log)
	if err != nil {
		r.t.Fatal(err)
	}
	failed := ls.serve()
	r.t.Cleanup(func() {
		ls.xds.Shutdown(r.t.Context())
		_ = ls.shutdown(r.t.Context())
		select {
		case err := <-failed:
			r.t.Error(err)
		default:
		}
		if r.t.Failed() {
			r.t.Logf("log of the replica with --admin-port=%d:\n%s", is.o.AdminPort, &is.log)
		}
	})
	go w.Run(r.t.Context())
	go withdrawn.Run(r.t.Context())
}

// listen stands in for the Service of xDS.
func (r *twoReplicas) listen() {
	r.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = l.Close() })
	r.service = l.Addr().String()
	r.onlyFirst.Store(true)
	go func() {
		for n := 0; ; n++ {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to := r.a
			if n%2 == 1 && !r.onlyFirst.Load() {
				to = r.b
			}
			go func() {
				defer func() { _ = from.Close() }()
				c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", to.o.XDSPort))
				if err != nil {
					return // the Envoy sees its connection closed
				}
				defer func() { _ = c.Close() }()
				go func() {
					_, _ = io.Copy(c, from)
					_ = c.Close()
				}()
				_, _ = io.Copy(from, c)
			}()
		}
	}()
}

// startEnvoy starts an Envoy, and waits until it is ready.
func (r *twoReplicas) startEnvoy(at string, arguments ...string) *envoytest.Envoy {
	r.t.Helper()
	var adminPort, loopbackPort uint16
	freeport.Set(r.t, &adminPort, &loopbackPort)
	text, err := envoy.Bootstrap(envoy.BootstrapOptions{XDSAddress: at, AdminAddress: fmt.Sprint("127.0.0.1:", adminPort), AdminPort: loopbackPort})
	if err != nil {
		r.t.Fatal(err)
	}
	e := envoytest.Start(r.t, text, arguments...)
	e.WaitReady()
	return e
}

func putService(api *apiservertest.Server, namespace, name, address string) {
	at, portName := netip.MustParseAddrPort(address), "http"
	port := int32(at.Port())
	api.PutObject("services", &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: portName, Port: 80}}},
	})
	api.PutObject("endpointslices", &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		Ports:      []discoveryv1.EndpointPort{{Name: &portName, Port: &port}},
		Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{at.Addr().String()}}},
	})
}

// split sends all requests to canary if its weight is 100, and to stable if it is 0.
func (r *twoReplicas) split(canary int32) {
	port := int32(80)
	split := []weightedbackends.Backend{{Service: "stable", Weight: 100 - canary}, {Service: "canary", Weight: canary}}
	r.api.PutObject("httpscaledobjects", &httpv1alpha1.HTTPScaledObject{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "app", Annotations: map[string]string{weightedbackends.Annotation: weightedbackends.Format(split)}},
		Spec:       httpv1alpha1.HTTPScaledObjectSpec{Hosts: []string{"app.example.com"}, ScaleTargetRef: httpv1alpha1.ScaleTargetRef{Service: "stable", Port: &port}},
	})
}

func (r *twoReplicas) eventually(what string, is func() error) {
	r.t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if err = is(); err == nil {
			return
		}
	}
	r.t.Fatalf("never: %s: %v", what, err)
}

// gets returns nil if a request at a port is answered with a text.
func (r *twoReplicas) gets(port uint16, want string) error {
	code, text, err := ask(r.client, "http", port, http.MethodGet, nil)
	if err == nil && text != want {
		err = fmt.Errorf("answered %d %q, want %s", code, text, want)
	}
	return err
}

// answers returns nil if the other replica is told this state.
func (r *replica) answers(state string) error {
	response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/apiserver", r.o.AdminPort))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); err != nil || !strings.Contains(string(text), state) {
		return fmt.Errorf("%s, %w, want %s", text, err, state)
	}
	return nil
}

func (r *replica) ready() bool { return code(int(r.o.AdminPort), "/readyz") == http.StatusOK }

// has returns nil if a replica has as many Envoys as wanted.
func (r *replica) has(want int) error {
	response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", r.o.MetricsPort))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && !strings.Contains(string(text), fmt.Sprintf("interceptor_xds_streams{kind=\"delta\"} %d\n", want)) {
		err = fmt.Errorf("it has not %d", want)
	}
	return err
}

// connects tells whether a replica takes connections of Envoys.
func (r *replica) connects() bool {
	c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", r.o.XDSPort))
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// An interceptor that is the only one asks itself alone, and serves on without the API
// server.
func TestAnInterceptorAloneServesOn(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	l, address := newLine(t, strings.TrimPrefix(api.URL(), "http://"))
	free, of := ports(t)
	cmd, out := process(t, append(free, "--fallback-service=keda/interceptors", "--api-server-timeout=4s")...)
	config := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(config, []byte(strings.ReplaceAll(nobody, "127.0.0.1:1", address)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(cmd.Env, "KUBECONFIG="+config)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	is := &replica{o: &settings.Settings{AdminPort: uint16(of["admin-port"]), XDSPort: uint16(of["xds-port"])}}
	eventually(t, "it sees the API server", out, func() bool { return is.answers("current") == nil })
	l.set(silent)
	// On a busy machine it may have asked before, and seen the API server again since.
	eventually(t, "it has asked", out, func() bool {
		return is.answers("stale") == nil && strings.Contains(out.String(), "no other interceptor sees it")
	})
	if !is.ready() || !is.connects() {
		t.Errorf("alone: ready: %v, takes Envoys: %v", is.ready(), is.connects())
	}
	l.set(passes)
	eventually(t, "it sees the API server again", out, func() bool { return is.answers("current") == nil })
}

// An interceptor that has lost the API server, while the other one sees it, sends its
// Envoys there: they follow an abort. When it sees it again, it is ready as soon as its
// table is that of the cluster.
func TestABlindInterceptorSendsItsEnvoysToTheOther(t *testing.T) {
	for name, is := range map[string]condition{"connections refused": refuses, "connections silent": silent} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReplicas(t)
			r.startEnvoy(r.service)
			if err := r.a.has(1); err != nil {
				t.Fatal("the first replica's Envoys: ", err)
			}
			r.eventually("canary in use", func() error { return r.gets(r.proxyPort, "canary") })
			r.onlyFirst.Store(false)
			r.a.set(is)
			r.split(0)
			r.eventually("the Envoy follows the abort", func() error { return r.gets(r.proxyPort, "stable") })
			r.eventually("it is at the other replica", func() error {
				return errors.Join(r.a.has(0), r.b.has(1), r.a.answers("unavailable"), r.b.answers("current"))
			})
			if r.a.ready() || r.a.connects() || !r.b.ready() {
				t.Errorf("the blind one: ready %v, takes Envoys %v; the other is ready: %v", r.a.ready(), r.a.connects(), r.b.ready())
			}
			if err := r.gets(r.a.o.ProxyPort, "canary"); err != nil {
				t.Error("the embedded proxy of the blind one, for clients that do not know yet: ", err)
			}
			r.a.set(passes)
			r.eventually("it is ready again", func() error {
				if !r.a.ready() {
					return errors.New("it is not")
				}
				return nil
			})
			// On a busy machine the other may not have answered in time: then nobody has a newer table.
			if err := r.gets(r.a.o.ProxyPort, "stable"); err != nil && !strings.Contains(r.a.log.String(), "no other interceptor serves") {
				t.Error("it is ready with an old table: ", err)
			}
			r.eventually("it takes Envoys again", func() error {
				if !r.a.connects() {
					return errors.New("it does not")
				}
				return nil
			})
		})
	}
}

// If all interceptors have lost the API server, nothing changes: Envoys stay, new ones get
// what is known, and all follow once one interceptor sees it again.
func TestAllInterceptorsBlind(t *testing.T) {
	t.Parallel()
	r := newReplicas(t)
	r.startEnvoy(r.service)
	r.eventually("canary in use", func() error { return r.gets(r.proxyPort, "canary") })
	r.onlyFirst.Store(false)
	r.a.set(silent)
	r.b.set(silent)
	for _, is := range []*replica{r.a, r.b} {
		r.eventually("it has asked the other", func() error {
			if !strings.Contains(is.log.String(), "no other interceptor sees it") {
				return errors.New("the log does not say so")
			}
			return nil
		})
	}
	r.split(0)
	r.startEnvoy(fmt.Sprint("127.0.0.1:", r.b.o.XDSPort))
	if err := errors.Join(r.a.has(1), r.b.has(1), r.gets(r.proxyPort, "canary")); err != nil || !r.a.ready() || !r.b.ready() {
		t.Errorf("not as before: %v; ready: %v, %v", err, r.a.ready(), r.b.ready())
	}
	r.b.set(passes)
	r.eventually("the Envoys follow", func() error {
		return errors.Join(r.gets(r.proxyPort, "stable"), r.a.has(0), r.b.has(2))
	})
	r.a.set(passes)
	r.eventually("the first replica is ready again", func() error {
		if !r.a.ready() || !r.a.connects() {
			return errors.New("it is not")
		}
		return nil
	})
}

// The interceptors lose the API server one after the other: the Envoy is always at one
// that sees it.
func TestInterceptorsBlindInTurn(t *testing.T) {
	t.Parallel()
	r := newReplicas(t)
	r.startEnvoy(r.service)
	r.eventually("canary in use", func() error { return r.gets(r.proxyPort, "canary") })
	r.onlyFirst.Store(false)
	weight, blind, sees := int32(100), r.a, r.b
	for range 3 {
		blind.set(silent)
		r.eventually("the Envoy at the other replica", func() error { return errors.Join(blind.has(0), sees.has(1)) })
		weight = 100 - weight
		r.split(weight)
		r.eventually("the Envoy follows", func() error {
			return r.gets(r.proxyPort, map[int32]string{0: "stable", 100: "canary"}[weight])
		})
		if !sees.ready() {
			t.Fatal("neither is ready")
		}
		blind.set(passes)
		blind, sees = sees, blind
	}
}
