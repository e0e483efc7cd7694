package certified

import (
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"slices"
	"testing"
)

// state is that of a connection whose other side has shown a certificate with these
// URIs.
func state(t *testing.T, uris ...string) *tls.ConnectionState {
	t.Helper()
	c := new(x509.Certificate)
	for _, text := range uris {
		uri, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		c.URIs = append(c.URIs, uri)
	}
	return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c}, VerifiedChains: [][]*x509.Certificate{{c}}}
}

func TestNamespacesOfACertificate(t *testing.T) {
	for name, tt := range map[string]struct {
		uris  []string
		names []string
		all   bool
		text  string
	}{
		"none": {text: "no namespace"},
		"one":  {uris: []string{"spiffe://cluster.local/ns/shop/sa/kedify-proxy"}, names: []string{"shop"}, text: "shop"},
		"several, of several trust domains": {
			uris:  []string{"spiffe://b/ns/shop/sa/kedify-proxy", "spiffe://a/ns/demo/sa/kedify-proxy", "spiffe://a/ns/shop/sa/kedify-proxy"},
			names: []string{"demo", "shop"}, text: "demo, shop",
		},
		"all":          {uris: []string{"spiffe://a/ns/*/sa/kedify-proxy"}, all: true, text: "all namespaces"},
		"all, and one": {uris: []string{"spiffe://a/ns/*/sa/kedify-proxy", "spiffe://a/ns/shop/sa/kedify-proxy"}, names: []string{"shop"}, all: true, text: "all namespaces"},
		"many": {
			uris: []string{
				"spiffe://a/ns/a/sa/kedify-proxy", "spiffe://a/ns/b/sa/kedify-proxy", "spiffe://a/ns/c/sa/kedify-proxy",
				"spiffe://a/ns/d/sa/kedify-proxy", "spiffe://a/ns/e/sa/kedify-proxy", "spiffe://a/ns/f/sa/kedify-proxy",
			},
			names: []string{"a", "b", "c", "d", "e", "f"}, text: "a, b, c, d, e and 1 more",
		},
		"others beside it": {
			uris:  []string{"https://example.com/", "spiffe://a/ns/shop/sa/kedify-proxy", "urn:x:y"},
			names: []string{"shop"}, text: "shop",
		},
		"another pod of the namespace": {uris: []string{"spiffe://a/ns/shop/sa/default"}, text: "no namespace"},
		"another scheme":               {uris: []string{"https://a/ns/shop/sa/kedify-proxy"}, text: "no namespace"},
		"no trust domain":              {uris: []string{"spiffe:///ns/shop/sa/kedify-proxy"}, text: "no namespace"},
		"more before it":               {uris: []string{"spiffe://a/x/ns/shop/sa/kedify-proxy"}, text: "no namespace"},
		"more after it":                {uris: []string{"spiffe://a/ns/shop/sa/kedify-proxy/x"}, text: "no namespace"},
		"more within it":               {uris: []string{"spiffe://a/ns/shop/x/sa/kedify-proxy"}, text: "no namespace"},
		"no namespace in it":           {uris: []string{"spiffe://a/ns//sa/kedify-proxy", "spiffe://a/ns/sa/kedify-proxy"}, text: "no namespace"},
		"escaped":                      {uris: []string{"spiffe://a/ns/%2A/sa/kedify-proxy", "spiffe://a/ns/s%68op/sa/kedify-proxy", "spiffe://a/ns%2Fshop/sa/kedify-proxy"}, text: "no namespace"},
		"capitals":                     {uris: []string{"spiffe://a/ns/Shop/sa/kedify-proxy"}, text: "no namespace"},
		"a port":                       {uris: []string{"spiffe://a:1/ns/shop/sa/kedify-proxy"}, text: "no namespace"},
		"a user":                       {uris: []string{"spiffe://b@a/ns/shop/sa/kedify-proxy"}, text: "no namespace"},
		"a query":                      {uris: []string{"spiffe://a/ns/shop/sa/kedify-proxy?x", "spiffe://a/ns/shop/sa/kedify-proxy?"}, text: "no namespace"},
		"a fragment":                   {uris: []string{"spiffe://a/ns/shop/sa/kedify-proxy#x"}, text: "no namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			n := Of(state(t, tt.uris...))
			if !slices.Equal(n.Names(), tt.names) || n.All() != tt.all || n.Any() != (tt.all || len(tt.names) > 0) || n.String() != tt.text {
				t.Errorf("%q of %v, all %v, any %v", n.String(), n.Names(), n.All(), n.Any())
			}
			for _, name := range append(tt.names, "other", "*", "") {
				if want := tt.all || slices.Contains(tt.names, name); n.Has(name) != want {
					t.Errorf("it has %q: %v", name, n.Has(name))
				}
			}
		})
	}
}

// What nobody has verified names nothing.
func TestOnlyVerifiedCertificatesName(t *testing.T) {
	unverified := state(t, "spiffe://a/ns/shop/sa/kedify-proxy")
	unverified.VerifiedChains = nil
	for name, s := range map[string]*tls.ConnectionState{"no TLS": nil, "no certificate": {}, "not verified": unverified} {
		if n := Of(s); n.Any() || n.Has("shop") {
			t.Errorf("%s: %v", name, n)
		}
	}
}
