package clusteraccess

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/steps/outbound"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// apiServer answers with the credentials that it was sent.
func apiServer(t *testing.T, handler http.HandlerFunc) (*httptest.Server, *Access) {
	server := httptest.NewUnstartedServer(handler)
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return server, &Access{Server: server.URL, CA: ca, Token: token}
}

func client(addresses []netip.Prefix) *outbound.Client {
	return outbound.New(outbound.Options{Addresses: addresses})
}

func hosts(t *testing.T, texts ...string) outbound.Hosts {
	t.Helper()
	parsed, err := outbound.ParseHosts(texts)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// get asks for a path as the clients of this program do.
func get(t *testing.T, config *rest.Config, path string) (string, error) {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, config.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return string(text), err
}

func TestConfigSendsTheCredentials(t *testing.T) {
	certificate, key := pair(t)
	server, access := apiServer(t, func(w http.ResponseWriter, r *http.Request) {
		text := r.Proto + " " + r.Header.Get("Authorization") + " " + r.UserAgent()
		for _, of := range r.TLS.PeerCertificates {
			text += " " + of.Subject.CommonName
		}
		_, _ = w.Write([]byte(text))
	})
	if err := access.setCertificate(certificate, key, keys{}); err != nil {
		t.Fatal(err)
	}
	config, err := access.Config(client(loopback), hosts(t, "127.0.0.1"), "program/1")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := get(t, config, "/a"); err != nil || got != "HTTP/2.0 Bearer "+token+" program/1 eu" {
		t.Errorf("%q, %v", got, err)
	}
	access.ServerName = "example.com" // which the certificate of httptest has, too
	if config, err = access.Config(client(loopback), hosts(t, "127.0.0.1"), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := get(t, config, "/"); err != nil {
		t.Errorf("by another name: %v", err)
	}
	access.ServerName = "eu.example.org"
	if config, err = access.Config(client(loopback), hosts(t, "127.0.0.1"), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := get(t, config, "/"); err == nil || !strings.Contains(err.Error(), "eu.example.org") {
		t.Errorf("by a name that the certificate has not: %v", err)
	}
	access.CA, access.ServerName = certificate, ""
	if config, err = access.Config(client(loopback), hosts(t, "127.0.0.1"), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := get(t, config, "/"); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("%s is trusted by another authority: %v", server.URL, err)
	}
}

// A Secret's URL is confined as that of a request: an admin says the hosts, and addresses are
// checked as a connection is made.
func TestConfigIsConfined(t *testing.T) {
	asked := 0
	_, access := apiServer(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/here", http.StatusFound)
		case "/large":
			_, _ = w.Write(make([]byte, 65<<20))
		}
	})
	if _, err := access.Config(client(loopback), hosts(t, "eu.example.com"), ""); err == nil || !strings.Contains(err.Error(), "--allow-host=127.0.0.1:") {
		t.Errorf("another host: %v", err)
	}
	config, err := access.Config(client(nil), hosts(t, "127.0.0.1"), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := get(t, config, "/"); err == nil || !strings.Contains(err.Error(), "the address 127.0.0.1 is not allowed (loopback)") {
		t.Errorf("a refused address: %v", err)
	}
	if asked > 0 {
		t.Fatalf("%d requests", asked)
	}
	if config, err = access.Config(client(loopback), hosts(t, "127.0.0.1"), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := get(t, config, "/moved"); err == nil || !strings.Contains(err.Error(), "answered with a redirect (302), which is not followed") || asked != 1 {
		t.Errorf("a redirect: %v, %d requests", err, asked)
	}
	if _, err := get(t, config, "/large"); err == nil || !strings.Contains(err.Error(), "the answer is too large: want 64 MiB at most") {
		t.Errorf("a large answer: %v", err)
	}
	other := rest.CopyConfig(config)
	other.Host = "https://localhost:1"
	if _, err := get(t, other, "/"); err == nil || !strings.Contains(err.Error(), "another origin") {
		t.Errorf("another origin: %v", err)
	}
}

// An admin's proxy is used; that of the environment is not, as package outbound's tests show.
func TestConfigUsesTheEgressProxy(t *testing.T) {
	var connected []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connected = append(connected, r.Method+" "+r.Host)
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(proxy.Close)
	_, access := apiServer(t, func(http.ResponseWriter, *http.Request) {})
	at, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxied := outbound.New(outbound.Options{Addresses: loopback, Proxy: at})
	config, err := access.Config(proxied, hosts(t, "127.0.0.1"), "")
	if err != nil {
		t.Fatal(err)
	}
	want := "CONNECT " + strings.TrimPrefix(access.Server, "https://")
	if _, err := get(t, config, "/"); err == nil || !strings.Contains(err.Error(), "the egress proxy answered 403") || len(connected) != 1 || connected[0] != want {
		t.Errorf("%v, %q", err, connected)
	}
	closed := outbound.New(outbound.Options{Proxy: at})
	if config, err = access.Config(closed, hosts(t, "127.0.0.1"), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := get(t, config, "/"); err == nil || !strings.Contains(err.Error(), "the address 127.0.0.1 is not allowed") || len(connected) != 1 {
		t.Errorf("%v, %q", err, connected)
	}
}
