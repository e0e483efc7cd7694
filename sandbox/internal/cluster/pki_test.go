package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

func TestPKI(t *testing.T) {
	l := Layout{Dir: t.TempDir()}
	now := time.Now()
	if err := writePKI(l, now); err != nil {
		t.Fatal(err)
	}
	pool := func(file string) *x509.CertPool {
		content, err := os.ReadFile(l.pki(file))
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(content) {
			t.Fatalf("%s holds no certificate", file)
		}
		return pool
	}
	ca, frontProxy := pool("ca.crt"), pool("front-proxy-ca.crt")
	leaf := func(file string) *x509.Certificate {
		pair, err := tls.LoadX509KeyPair(l.pki(file+".crt"), l.pki(file+".key"))
		if err != nil {
			t.Fatal(err)
		}
		return pair.Leaf
	}
	for file, hosts := range map[string][]string{
		"apiserver": {"10.244.0.1", "10.96.0.1", "127.0.0.1", "kubernetes", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "localhost"},
		"kubelet":   {"10.244.0.1", "sandbox"},
		"loopback":  {"127.0.0.1", "localhost"},
	} {
		for _, host := range hosts {
			_, err := leaf(file).Verify(x509.VerifyOptions{
				Roots: ca, DNSName: host, CurrentTime: now.Add(24 * time.Hour), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			})
			if err != nil {
				t.Errorf("%s as %s: %v", file, host, err)
			}
		}
	}
	client := x509.VerifyOptions{KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for file, user := range map[string]string{
		"admin":                    "sandbox-admin",
		"kube-controller-manager":  "system:kube-controller-manager",
		"kube-scheduler":           "system:kube-scheduler",
		"node":                     "system:node:sandbox",
		"apiserver-kubelet-client": "kube-apiserver",
	} {
		client.Roots = ca
		if _, err := leaf(file).Verify(client); err != nil {
			t.Errorf("%s as client: %v", file, err)
		}
		if got := leaf(file).Subject.CommonName; got != user {
			t.Errorf("%s is user %q, want %q", file, got, user)
		}
	}
	// The front proxy's authority is another one, so that clients of the API
	// server cannot pass for the API server and the reverse.
	proxy := leaf("front-proxy-client")
	client.Roots = ca
	if _, err := proxy.Verify(client); err == nil {
		t.Error("front-proxy-client is signed by the cluster's authority")
	}
	client.Roots = frontProxy
	if _, err := proxy.Verify(client); err != nil {
		t.Errorf("front-proxy-client: %v", err)
	}
	if info, err := os.Stat(l.pki("ca.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("permissions of ca.key: %v, %v", info.Mode(), err)
	}
}

// A client with the written kubeconfig and a server with the written
// certificates accept one another.
func TestKubeconfigConnects(t *testing.T) {
	l := Layout{Dir: t.TempDir()}
	if err := writePKI(l, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := writeKubeconfigs(l); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(l.pki("apiserver.crt"), l.pki("apiserver.key"))
	if err != nil {
		t.Fatal(err)
	}
	config, err := restConfig(l.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != APIServerURL || config.QPS >= 0 {
		t.Errorf("host %s, QPS %v; want %s and no limit", config.Host, config.QPS, APIServerURL)
	}
	var user string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		user = r.TLS.PeerCertificates[0].Subject.CommonName
	}))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(config.CAData)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	server.StartTLS()
	defer server.Close()

	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		t.Fatal(err)
	}
	if user != "sandbox-admin" {
		t.Errorf("the server sees user %q", user)
	}
}
