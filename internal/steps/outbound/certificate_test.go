package outbound

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// clientCertificate returns a certificate and its key.
func clientCertificate(t *testing.T) []byte {
	t.Helper()
	any := httptest.NewTLSServer(nil)
	defer any.Close()
	pair := any.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})
	_ = pem.Encode(&text, &pem.Block{Type: "PRIVATE KEY", Bytes: key})
	return text.Bytes()
}

func TestClientCertificates(t *testing.T) {
	asking := func(auth tls.ClientAuthType, version uint16, handle http.HandlerFunc) *recording {
		return newRecording(t, func(s *httptest.Server) {
			s.TLS = &tls.Config{ClientAuth: auth, MaxVersion: version}
			s.Config.ErrorLog = discard
			s.StartTLS()
		}, handle)
	}
	certificate := clientCertificate(t)
	for version := uint16(tls.VersionTLS12); version <= tls.VersionTLS13; version++ {
		server := asking(tls.RequireAnyClientCert, version, func(http.ResponseWriter, *http.Request) {})
		request := Request{Method: "POST", URL: server.URL, CA: certificateOf(server.Server), ClientCert: certificate}
		if _, err := here(t).Do(within(t), request); err != nil {
			t.Errorf("with a certificate: %v", err)
		}
		// Nothing was done: the server has not read the request.
		request.ClientCert = nil
		if _, err := here(t).Do(within(t), request); kind(err) != "not done" || !strings.Contains(err.Error(), "remote error: tls") {
			t.Errorf("without one: got %s, %v", kind(err), err)
		}
		if had, _ := server.all(); len(had) != 1 {
			t.Errorf("the server had %d requests, want 1", len(had))
		}
	}
	key := bytes.Index(certificate, []byte("-----BEGIN PRIVATE"))
	for name, bad := range map[string][]byte{"empty": {}, "no key": certificate[:key], "no certificate": certificate[key:]} {
		_, err := here(t).Do(within(t), Request{Method: "GET", URL: "https://127.0.0.1:1", ClientCert: bad})
		if kind(err) != "not done" || !strings.Contains(err.Error(), "want a certificate and its key in PEM") {
			t.Errorf("%s: got %s, %v", name, kind(err), err)
		}
	}

	location := ""
	other := asking(tls.RequestClientCert, 0, func(http.ResponseWriter, *http.Request) {})
	server := asking(tls.RequestClientCert, 0, redirectTo(http.StatusFound, &location))
	authorities := append(certificateOf(server.Server), certificateOf(other.Server)...)
	for _, there := range []*recording{other, server} {
		location = there.URL + "/end"
		if _, err := here(t).Do(within(t), Request{Method: "GET", URL: server.URL, CA: authorities, ClientCert: certificate}); err != nil {
			t.Fatal(err)
		}
		had, _ := there.all()
		if shown := len(had[len(had)-1].TLS.PeerCertificates) > 0; shown != (there == server) {
			t.Errorf("redirected to another origin %v: the certificate is shown: %v", there == other, shown)
		}
	}
}
