package proxies

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/pki"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/guidetest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

// page says how to turn TLS on, for the namespace myapp.
const page = "docs/how-to/tls.md"

// renew at the end of a command that makes a Secret renews it, as the page says.
const renew = " --dry-run=client -o yaml | kubectl replace -f -"

// xdsServerName is the name that the interceptor's certificate on port 5678 has to
// have.
const xdsServerName = "keda-add-ons-http-interceptor-xds.keda"

// TestTrafficTLS turns TLS on as the page says, under load, and no request
// fails. Both proxies then split requests over TLS, too, and only a client with a
// certificate gets the configuration. New certificates and authorities take effect
// without a restart, and an Envoy uses them for its next connection.
func TestTrafficTLS(t *testing.T) {
	s := traffictest.StartApp(t)
	proxies := []traffictest.Proxy{s.Embedded, s.Envoy}
	guidetest.RequireNames(t, page, "secrets", "apply")
	chdirDocumented(t, s.Name)
	public, authority := newAuthority(t, "public"), newAuthority(t, "first authority")
	public.sign(".", pki.Certificate{CommonName: "first", Hosts: []string{s.Host}})
	signXDS(t, authority, s.Name)

	var loads []*traffictest.Load
	for _, p := range proxies {
		loads = append(loads, traffictest.StartParallelLoad(t, p, s.Host))
	}
	t.Cleanup(func() { withoutTLS(t) })
	guidetest.Run(t, page, []string{"secrets", "apply"}, "myapp", s.Name)
	var pods []corev1.Pod // of both
	for i, p := range proxies {
		pods = append(pods, p.Pods(t)...)
		loads[i].Finish(nil, "blue", "yellow")
		p.AwaitShares(t, "app", map[string]int{"stable": 80, "canary": 20})
		requireShareOverTLS(t, p, public, s.Host, 20)
	}
	interceptors := s.Embedded.Pods(t)
	for _, pod := range interceptors {
		if err := showXDS(t.Context(), pod, authority, keyPair(t, "kedify-proxy")); err != nil {
			t.Errorf("%s refuses a kedify-proxy: %v", pod.Name, err)
		}
		if err := showXDS(t.Context(), pod, authority); !isAlert(err) {
			t.Errorf("%s answers a client without a certificate: %v", pod.Name, err)
		}
	}

	before, next := keyPair(t, "kedify-proxy"), newAuthority(t, "second authority")
	public.sign(".", pki.Certificate{CommonName: "second", Hosts: []string{s.Host}})
	signXDS(t, next, s.Name)
	guidetest.Run(t, page, []string{"secrets"}, "myapp", s.Name, "\n", renew+"\n")
	for _, pod := range pods {
		e2etest.Eventually(t, e2etest.Patience, pod.Name+" serves the second certificate", func(ctx context.Context) error {
			conn, err := dialTLS(ctx, pod, 8443, &tls.Config{RootCAs: public.pool(), ServerName: s.Host})
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			if name := conn.ConnectionState().PeerCertificates[0].Subject.CommonName; name != "second" {
				return fmt.Errorf("it serves the %s", name)
			}
			return nil
		})
	}
	for _, pod := range interceptors {
		e2etest.Eventually(t, e2etest.Patience, pod.Name+" knows the second authority", func(ctx context.Context) error {
			return showXDS(ctx, pod, next, keyPair(t, "kedify-proxy"))
		})
		if err := showXDS(t.Context(), pod, next, before); !isAlert(err) {
			t.Errorf("%s answers a client of the first authority: %v", pod.Name, err)
		}
	}

	// Envoys have to reconnect, with the new certificates on both sides.
	traffictest.Kill(t, interceptors...)
	traffictest.AwaitRestart(t, interceptors...)
	s.SetWeight(t, 60) // waits until both proxies have it
	for _, p := range proxies {
		requireShareOverTLS(t, p, public, s.Host, 60)
	}
	for _, pod := range s.Envoy.Pods(t) {
		if e2etest.Restarts(pod) > 0 {
			t.Errorf("%s was restarted", pod.Name)
		}
	}
}

// chdirDocumented changes to a directory that has deploy/ and the page's kustomizations,
// for a namespace.
func chdirDocumented(t *testing.T, namespace string) {
	t.Helper()
	text, err := os.ReadFile(e2etest.Repository(t, page))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "`"+renew+"`") {
		t.Errorf("%s does not say %s", page, renew)
	}
	// kustomize takes directories without links.
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "deploy"), os.DirFS(e2etest.Repository(t, "deploy"))); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, name := range []string{"tls-interceptor", "tls-kedify-proxy", "tls-interceptor-strict"} {
		writeFile(t, name+"/kustomization.yaml", []byte(strings.ReplaceAll(guidetest.YAML(t, page, name), "myapp", namespace)))
	}
}

// signXDS writes what both sides of port 5678 need, for the kedify-proxy of a namespace.
func signXDS(t *testing.T, a authority, namespace string) {
	t.Helper()
	writeFile(t, "ca.crt", a.Pair.Cert)
	a.sign("interceptor", pki.Certificate{CommonName: "interceptor", Hosts: []string{xdsServerName}})
	a.sign("kedify-proxy", pki.Certificate{CommonName: "kedify-proxy", Client: true, URI: "spiffe://cluster.local/ns/" + namespace + "/sa/kedify-proxy"})
}

// withoutTLS leaves the interceptors as they were.
func withoutTLS(t *testing.T) {
	// The test's own context has ended.
	for _, line := range []string{
		"kubectl apply -k " + e2etest.Repository(t, "deploy/interceptor"),
		"kubectl -n keda rollout status deploy/keda-add-ons-http-interceptor",
		"kubectl -n keda delete secret keda-tls-certs keda-add-ons-http-interceptor-xds",
	} {
		if _, err := e2etest.TryShell(context.Background(), line); err != nil {
			t.Error(err)
		}
	}
}

// requireShareOverTLS is RequireShare for the canary, on kept-alive connections to the
// proxy's Service: one for ordered requests, several for others.
func requireShareOverTLS(t *testing.T, p traffictest.Proxy, trusted authority, host string, weight int) {
	t.Helper()
	p.Address = strings.TrimSuffix(p.Address, ":8080") + ":8443"
	transport := &http.Transport{DialContext: p.Dial, MaxIdleConnsPerHost: 64, TLSClientConfig: &tls.Config{RootCAs: trusted.pool()}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	ask := func(ctx context.Context) (string, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+host+"/color", nil)
		if err != nil {
			return "", err
		}
		response, err := client.Do(request)
		if err != nil {
			return "", err
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			return "", fmt.Errorf("%s %q: %w", response.Status, body, err)
		}
		return traffic.Colour(response.Header, body)
	}
	e2etest.Eventually(t, e2etest.Patience, "an answer over TLS at "+p.Address, func(ctx context.Context) error {
		_, err := ask(ctx)
		return err
	})
	traffictest.RequireShare(t, p, "yellow", weight, func(count int, ordered bool) []traffic.Answer {
		return traffictest.Ask(count, ordered, func(int) traffic.Answer {
			colour, err := ask(t.Context())
			if err != nil {
				return traffic.Answer{Problem: err.Error()}
			}
			return traffic.Answer{Status: http.StatusOK, Backend: colour}
		})
	})
}

// showXDS connects to port 5678 of an interceptor, whose certificate the authority must
// have signed. It presents a client certificate or none, whatever the interceptor asks
// for, and returns an error unless the interceptor serves it.
func showXDS(ctx context.Context, interceptor corev1.Pod, a authority, certificates ...tls.Certificate) error {
	conn, err := dialTLS(ctx, interceptor, 5678, &tls.Config{
		RootCAs: a.pool(), ServerName: xdsServerName, NextProtos: []string{"h2"},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if len(certificates) == 0 {
				return new(tls.Certificate), nil
			}
			return &certificates[0], nil
		},
	})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	// A client learns only by its first read that it is refused.
	_, err = conn.Read(make([]byte, 1))
	return err
}

// isAlert says whether the other side has ended a connection over TLS because of its
// handshake.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

func dialTLS(ctx context.Context, pod corev1.Pod, port int, config *tls.Config) (*tls.Conn, error) {
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", net.JoinHostPort(pod.Status.PodIP, fmt.Sprint(port)))
	if err != nil {
		return nil, err
	}
	return conn.(*tls.Conn), nil
}
