package main

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/settings"
)

// bootstrapOf is the bootstrap of a kedify-proxy whose certificate is for the namespaces
// named, and which declares other namespaces, or none.
func (a *authority) bootstrapOf(named []string, inNode ...string) envoy.BootstrapOptions {
	a.t.Helper()
	o := envoy.BootstrapOptions{CAFile: a.file("ca.crt"), Namespaces: inNode}
	o.CertFile, o.KeyFile = a.files("kedify-proxy", a.sign("kedify-proxy", ecdsaKey(a.t), named...))
	return o
}

// overTLS has the kedify-proxy hand over with TLS, through a tap.
func (s *stack) overTLS(o envoy.BootstrapOptions) (envoy.BootstrapOptions, *tap) {
	s.t.Helper()
	t := newTap(s.t, fmt.Sprint("127.0.0.1:", s.o.FallbackPort))
	o.FallbackAddress = t.address
	return o, t
}

// requireNamespaces sets up mutual TLS with certificates that have to name namespaces.
func requireNamespaces(a *authority) func(*settings.Settings) {
	return func(o *settings.Settings) {
		mutual(a)(o)
		o.XDS.RequireNamespaces = true
	}
}

// An Envoy gets the namespaces that it declares, if its certificate names them; without a
// declaration, it gets all that the certificate names. Other Envoys are refused, with the
// reason.
func TestCertificatesNameTheNamespacesOfKedifyProxies(t *testing.T) {
	for name, tt := range map[string]struct {
		named, inNode  []string
		required, sotw bool
		has            []string // namespaces
		says           string   // why it is turned away
	}{
		"what it names":                 {named: []string{"blue"}, inNode: []string{"blue"}, has: []string{"blue"}},
		"a part of it":                  {named: []string{"blue", "red"}, inNode: []string{"blue"}, has: []string{"blue"}, sotw: true},
		"more":                          {named: []string{"blue"}, inNode: []string{"blue", "red"}, says: "node.metadata.namespaces has red, and this kedify-proxy's certificate is for blue alone"},
		"another":                       {named: []string{"blue"}, inNode: []string{"red"}, says: "node.metadata.namespaces has red", sotw: true},
		"none in the node":              {named: []string{"blue"}, has: []string{"blue"}, required: true},
		"none in the node, all named":   {named: []string{"*"}, has: []string{"blue", "red"}, required: true},
		"one of all":                    {named: []string{"*"}, inNode: []string{"red"}, has: []string{"red"}, sotw: true},
		"none named":                    {inNode: []string{"red"}, has: []string{"red"}},
		"none named, which is required": {inNode: []string{"red"}, required: true, says: "certificate names no namespace, and --xds-require-namespaces asks for it"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAuthority(t, "authority")
			change := mutual(a)
			if tt.required {
				change = requireNamespaces(a)
			}
			s := newStack(t, change)
			for _, namespace := range []string{"blue", "red"} {
				s.object(namespace)
				s.endpoint(namespace, says(t, namespace))
			}
			o := a.bootstrapOf(tt.named, tt.inNode...)
			o.SotW = tt.sotw
			s.startEnvoy(o)
			if tt.says != "" {
				s.envoy.Wait("words in both logs", func() error {
					for whose, log := range map[string]string{"Envoy": s.envoy.Log(), "interceptor": s.logged.String()} {
						if !strings.Contains(log, tt.says) {
							return fmt.Errorf("that of the %s has not %q", whose, tt.says)
						}
					}
					return nil
				})
				if text, err := s.envoy.Get("/ready"); err != nil || strings.TrimSpace(text) == "LIVE" {
					t.Errorf("it is configured all the same: %q, %v", text, err)
				}
				return
			}
			s.connected()
			clusters, err := s.envoy.Get("/clusters")
			if err != nil {
				t.Fatal(err)
			}
			for _, namespace := range []string{"blue", "red"} {
				if got, want := strings.Contains(clusters, namespace+"/app/app::"), slices.Contains(tt.has, namespace); got != want {
					t.Errorf("it has the cluster of %s: %v, want %v", namespace, got, want)
				}
			}
			if named := strings.Contains(s.logged.String(), "the certificate of an Envoy names no namespace"); named != (len(tt.named) == 0) {
				t.Errorf("the log tells of a certificate without namespaces: %v", named)
			}
		})
	}
}

// Requests that a kedify-proxy hands over go through TLS, including the name of their
// object.
func TestKedifyProxyHandsOverWithTLS(t *testing.T) {
	for name, sotw := range map[string]bool{"delta": false, "sotw": true} {
		t.Run(name, func(t *testing.T) {
			a := newAuthority(t, "authority")
			s := newStack(t, requireNamespaces(a))
			s.object("red")
			s.object("blue")
			s.endpoint("red", says(t, "red"))
			o, tap := s.overTLS(a.bootstrapOf([]string{"blue"}))
			o.SotW = sotw
			o.MaxConnections = 1 // for the client; the hop inside Envoy does not count
			// As in deploy/kedify-proxy, beside what the bootstrap says of TLS.
			s.startEnvoy(o, "--config-yaml", `node: {metadata: {namespaces: ["blue"], pod: "blue/kedify-proxy-1"}}`)
			s.connected()
			client := newClient(t, &http.Transport{})
			for range 2 { // the second time after it has had endpoints
				s.handedOver(client, "blue")
				s.endpoints("blue")
				s.envoy.Wait("no endpoint", func() error {
					if s.envoy.Stat("cluster.blue/app/app.membership_total") != 1 {
						return errors.New("it has one still")
					}
					return nil
				})
			}
			seen := tap.seen()
			if len(seen) == 0 {
				t.Error("nothing went through TLS")
			}
			for _, sent := range seen {
				if sent[0] != 0x16 || bytes.Contains(sent, []byte("blue/app")) || bytes.Contains(sent, []byte("HTTP/1.1")) {
					t.Errorf("sent in the clear: %.80q", sent)
				}
			}
			if got := s.metric("interceptor_requests_total", "red"); got != 0 {
				t.Errorf("red got %v of blue's requests", got)
			}
		})
	}
}

// handedOver sends a request that waits for its first endpoint at the interceptor.
func (s *stack) handedOver(client *http.Client, namespace string) {
	s.t.Helper()
	body := strings.Repeat("x", 100<<10)
	answer := make(chan string, 1)
	go func() {
		code, text, err := ask(client, "http", s.o.KedifyProxy.Port, http.MethodPost, strings.NewReader(body))
		answer <- fmt.Sprint(code, " ", text, " ", err)
	}()
	s.envoy.Wait("a request held", func() error {
		select {
		case got := <-answer:
			s.t.Fatalf("answered without an endpoint: %.200s", got)
		default:
		}
		if held := s.metric("interceptor_requests_held", namespace); held != 1 {
			return fmt.Errorf("%v are", held)
		}
		return nil
	})
	s.endpoint(namespace, says(s.t, namespace))
	if got := <-answer; got != "200 "+namespace+body+" <nil>" {
		s.t.Errorf("a request that was held is answered %.200s", got)
	}
}

// A certificate limits the objects whose requests can be handed over with it, whether the
// kedify-proxy names the object or the host decides.
func TestCertificatesBoundWhatIsHandedOver(t *testing.T) {
	a, other := newAuthority(t, "authority"), newAuthority(t, "another authority")
	signed := func(namespaces ...string) *tls.Certificate { return a.sign("kedify-proxy", ecdsaKey(t), namespaces...) }
	for name, tt := range map[string]struct {
		certificate *tls.Certificate
		plain       bool
		object      string
		lenient     string // the answer where namespaces are not required; "" for none
		strict      string
	}{
		"its own":                  {certificate: signed("blue"), object: "blue/app", lenient: "blue", strict: "blue"},
		"one of its own":           {certificate: signed("blue", "red"), object: "blue/app", lenient: "blue", strict: "blue"},
		"all":                      {certificate: signed("*"), object: "red/app", lenient: "red", strict: "red"},
		"another's":                {certificate: signed("blue"), object: "red/app"},
		"nobody's, by the host":    {certificate: signed("blue"), object: ""},
		"one that is gone":         {certificate: signed("blue"), object: "blue/gone", lenient: "404", strict: "404"},
		"one that is gone, of red": {certificate: signed("red"), object: "red/gone", lenient: "red", strict: "red"},
		"no name":                  {certificate: signed(), object: "red/app", lenient: "red"},
		"no certificate":           {certificate: new(tls.Certificate), object: "red/app"},
		"of another authority":     {certificate: other.sign("kedify-proxy", ecdsaKey(t), "red"), object: "red/app"},
		"no TLS":                   {plain: true, object: "red/app", lenient: "red"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, mode := range []struct {
				name   string
				change func(*settings.Settings)
				want   string
			}{{"not required", mutual(a), tt.lenient}, {"required", requireNamespaces(a), tt.strict}} {
				s := newStack(t, mode.change)
				for _, namespace := range []string{"red", "blue"} { // red is older, and has the host
					s.object(namespace)
					s.endpoint(namespace, says(t, namespace))
				}
				got, err := s.handOver(a, tt.plain, tt.certificate, tt.object)
				if err != nil {
					t.Fatal(err)
				}
				if got != mode.want {
					t.Errorf("%s: answered %q, want %q", mode.name, got, mode.want)
				}
				refused := 0.0
				if mode.want == "" {
					refused = 1
				}
				// A client that is refused by a TLS alert learns it before it is counted.
				const counter = "interceptor_fallback_connections_refused_total"
				for deadline := time.Now().Add(patience); s.total(counter) != refused && time.Now().Before(deadline); {
					time.Sleep(time.Millisecond)
				}
				if n := s.total(counter); n != refused {
					t.Errorf("%s: %v connections refused, want %v", mode.name, n, refused)
				}
			}
		})
	}
}

// handOver hands a request over as a kedify-proxy does, and returns the body of the
// answer, a code that is not 200, or "" for a connection that is closed.
func (s *stack) handOver(a *authority, plain bool, certificate *tls.Certificate, object string) (string, error) {
	address := fmt.Sprint("127.0.0.1:", s.o.FallbackPort)
	c, err := net.Dial("tcp", address)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if !plain {
		c = tls.Client(c, &tls.Config{
			RootCAs: a.pool(), ServerName: "127.0.0.1",
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate, nil },
		})
	}
	request := append(forgedHeader(s.t, 2, object), "GET / HTTP/1.1\r\nHost: app.example.com\r\nConnection: close\r\n\r\n"...)
	_, _ = c.Write(request) // the connection may be refused by now, which the answer tells
	answer, err := io.ReadAll(c)
	var netErr net.Error
	if errors.As(err, &netErr) && netErr.Timeout() {
		return "", err
	}
	head, body, _ := strings.Cut(string(answer), "\r\n\r\n")
	if code, is := strings.CutPrefix(head, "HTTP/1.1 "); is && !strings.HasPrefix(code, "200") {
		return code[:3], nil
	}
	return body, nil
}

// An installation with mutual TLS gets to certificates that name namespaces in these
// steps, and each kedify-proxy serves, and hands over, in all of them. A kedify-proxy that
// was left out is refused from the last step on, and keeps the configuration that it has.
func TestFromMutualTLSToNamespacesWithoutAnOutage(t *testing.T) {
	a := newAuthority(t, "authority")
	unidentified := func(s *stack, want float64) {
		t.Helper()
		s.envoy.Wait(fmt.Sprint(want, " unidentified"), func() error {
			if got := s.total("interceptor_xds_unidentified_streams"); got != want {
				return fmt.Errorf("%v are", got)
			}
			return nil
		})
	}
	client := newClient(t, &http.Transport{})

	// 1. The interceptors are of this release; the kedify-proxies are not: their
	// certificates name no namespaces, and with their bootstrap they hand over without TLS.
	s := newStack(t, mutual(a))
	s.object("blue")
	s.startEnvoy(a.bootstrapOf(nil, "blue"))
	s.connected()
	unidentified(s, 1)
	s.handedOver(client, "blue")
	s.answered(client, "http", s.o.KedifyProxy.Port, "blue")

	// 2. Certificates name namespaces, and the bootstrap is of this release. Requests that
	// are handed over meanwhile, with the old and with the new bootstrap, are served.

	s.endpoints("blue")
	o, tap := s.overTLS(a.bootstrapOf([]string{"blue"}, "blue"))
	half := o
	half.FallbackAddress = "" // the new certificate, with the old bootstrap
	s.envoy.Stop()
	s.startEnvoy(half)
	s.connected()
	unidentified(s, 1)
	s.handedOver(client, "blue")
	s.envoy.Stop()
	s.endpoints("blue")
	s.startEnvoy(o)
	s.connected()
	unidentified(s, 0)
	s.handedOver(client, "blue")
	if len(tap.seen()) == 0 {
		t.Error("it was handed over without TLS")
	}

	// 3. The interceptors require namespaces. The kedify-proxy serves all the time.
	stopped := make(chan struct{})
	failures := make(chan string, 100)
	var load sync.WaitGroup
	load.Go(func() {
		for {
			select {
			case <-stopped:
				return
			default:
			}
			if code, text, err := ask(client, "http", s.o.KedifyProxy.Port, http.MethodGet, nil); err != nil || text != "blue" {
				select {
				case failures <- fmt.Sprint(code, " ", text, " ", err):
				default:
				}
			}
		}
	})
	s.stop()
	next := newStack(t, func(o *settings.Settings) {
		*o = *s.o
		o.XDS.RequireNamespaces = true
	})
	next.builder, next.envoy, next.envoyAdmin = s.builder, s.envoy, s.envoyAdmin
	next.commit()
	next.envoy.Wait("the next interceptor", func() error {
		if n := next.total("interceptor_xds_streams"); n != 1 {
			return fmt.Errorf("%v are connected to it", n)
		}
		return nil
	})
	unidentified(next, 0)
	close(stopped)
	load.Wait()
	close(failures)
	for failure := range failures {
		t.Errorf("answered %s", failure)
	}
	next.endpoints("blue")
	next.envoy.Wait("no endpoint", func() error {
		if next.envoy.Stat("cluster.blue/app/app.membership_total") != 1 {
			return errors.New("it has one still")
		}
		return nil
	})
	next.handedOver(client, "blue")

	// A kedify-proxy of the earlier release that starts now is refused: update it.
	next.envoy.Stop()
	next.startEnvoy(a.bootstrapOf(nil, "blue"))
	next.envoy.Wait("words", func() error {
		if text := "certificate names no namespace"; !strings.Contains(next.envoy.Log(), text) || !strings.Contains(next.logged.String(), text) {
			return errors.New("there are none in both logs")
		}
		return nil
	})
}

// total is the sum of a metric over all series.
func (s *stack) total(name string) (sum float64) {
	s.t.Helper()
	families, err := s.registry.Gather()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, series := range family.GetMetric() {
			sum += series.GetCounter().GetValue() + series.GetGauge().GetValue()
		}
	}
	return sum
}

// tap passes connections on to an address, and notes what clients send.
type tap struct {
	address string
	mu      sync.Mutex
	sent    []*bytes.Buffer
}

func newTap(t *testing.T, to string) *tap {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tp := &tap{address: l.Addr().String()}
	var open sync.WaitGroup
	t.Cleanup(open.Wait)
	t.Cleanup(func() { _ = l.Close() })
	open.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			open.Go(func() { tp.pass(c, to) })
		}
	})
	return tp
}

func (tp *tap) pass(from net.Conn, address string) {
	defer func() { _ = from.Close() }()
	to, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	sent := new(bytes.Buffer)
	tp.mu.Lock()
	tp.sent = append(tp.sent, sent)
	tp.mu.Unlock()
	go func() {
		_, _ = io.Copy(from, to)
		_ = from.Close()
	}()
	_, _ = io.Copy(to, io.TeeReader(from, writer(func(b []byte) {
		tp.mu.Lock()
		defer tp.mu.Unlock()
		sent.Write(b)
	})))
	_ = to.Close()
}

type writer func([]byte)

func (w writer) Write(b []byte) (int, error) {
	w(b)
	return len(b), nil
}

// seen returns what each connection has sent so far.
func (tp *tap) seen() (all [][]byte) {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	for _, sent := range tp.sent {
		if sent.Len() > 0 {
			all = append(all, bytes.Clone(sent.Bytes()))
		}
	}
	return all
}

// A renewed certificate counts for the next connections, on both ports: a kedify-proxy
// that declares no namespaces gets those that the certificate names, and one that declares
// more is refused and keeps the configuration that it has.
func TestKedifyProxyFollowsItsCertificate(t *testing.T) {
	for name, inNode := range map[string][]string{"none in the node": nil, "blue in the node": {"blue"}} {
		t.Run(name, func(t *testing.T) {
			a := newAuthority(t, "authority")
			s := newStack(t, func(o *settings.Settings) {
				requireNamespaces(a)(o)
				o.XDS.MaxConnectionAge = time.Second
			})
			s.object("blue")
			s.endpoint("blue", says(t, "blue"))
			o, _ := s.overTLS(a.bootstrapOf([]string{"blue"}, inNode...))
			o.SecretsDir = t.TempDir()
			o.XDSAddress, o.AdminAddress = fmt.Sprint("127.0.0.1:", s.o.XDSPort), fmt.Sprint("127.0.0.1:", s.envoyAdmin)
			certificate, authority, err := envoy.SecretFiles(o)
			if err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string][]byte{envoy.CertificateFileName: certificate, envoy.AuthorityFileName: authority} {
				if err := os.WriteFile(filepath.Join(o.SecretsDir, name), text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s.startEnvoy(o)
			s.connected()
			client := newClient(t, &http.Transport{})
			s.answered(client, "http", s.o.KedifyProxy.Port, "blue")

			// Another object, of red, and a certificate for red alone.
			s.object("red")
			s.endpoint("red", says(t, "red"))
			a.files("kedify-proxy", a.sign("kedify-proxy", ecdsaKey(t), "red"))
			if inNode == nil {
				s.answered(client, "http", s.o.KedifyProxy.Port, "red")
				s.endpoints("red")
				s.envoy.Wait("no endpoint", func() error {
					if s.envoy.Stat("cluster.red/app/app.membership_total") != 1 {
						return errors.New("it has one still")
					}
					return nil
				})
				s.handedOver(client, "red")
				return
			}
			s.envoy.Wait("words in both logs", func() error {
				says := "node.metadata.namespaces has blue, and this kedify-proxy's certificate is for red alone"
				if !strings.Contains(s.envoy.Log(), says) || !strings.Contains(s.logged.String(), says) {
					return errors.New("there are none")
				}
				return nil
			})
			s.answered(client, "http", s.o.KedifyProxy.Port, "blue")
		})
	}
}

// A kedify-proxy with a bootstrap of this release works with an interceptor of an earlier
// release, which knows nothing of handing over with TLS: as after a rollback.
func TestBootstrapOfThisReleaseWithAnInterceptorOfBefore(t *testing.T) {
	a := newAuthority(t, "authority")
	s := newStack(t, mutual(a))
	s.object("blue")
	o, tap := s.overTLS(a.bootstrapOf([]string{"blue"}, "blue"))
	s.startEnvoy(o, "--config-yaml", "node: {metadata: {"+envoy.FallbackTLSKey+": false}}")
	s.connected()
	client := newClient(t, &http.Transport{})
	s.handedOver(client, "blue")
	s.answered(client, "http", s.o.KedifyProxy.Port, "blue")
	if n := len(tap.seen()); n > 0 {
		t.Errorf("%d connections had TLS", n)
	}
}
