package envoy

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestBootstrap(t *testing.T) {
	cert, key := certificate(t)
	dir := filepath.Dir(cert)
	const xds = "keda-add-ons-http-interceptor-xds.keda:5678"
	tests := map[string]BootstrapOptions{
		"plain":      {XDSAddress: xds},
		"namespaces": {XDSAddress: "[fd00::1]:5678", AdminAddress: "127.0.0.1:9999", AdminPort: 9998, Namespaces: []string{"b", "a", "b"}, SotW: true, MaxConnections: 10, MaxHeap: 1 << 30},
		"ipv6":       {XDSAddress: xds, AdminAddress: "[::]:9901"},
		"mutual-tls": {XDSAddress: xds, CAFile: cert, CertFile: cert, KeyFile: key},
		"renewed":    {XDSAddress: xds, CAFile: cert, CertFile: cert, KeyFile: key, SecretsDir: dir, FallbackAddress: "keda-add-ons-http-interceptor-fallback.keda:8081"},
		"fallback": {
			XDSAddress: xds, CAFile: cert, CertFile: cert, KeyFile: key, ServerName: "xds", Namespaces: []string{"a"}, FallbackAddress: "[fd00::1]:8081",
		},
	}
	for name, o := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Bootstrap(o)
			if err != nil {
				t.Fatal(err)
			}
			golden := func(name string, got []byte) {
				t.Helper()
				shown := bytes.ReplaceAll(got, []byte(dir), []byte("/certificates"))
				out := filepath.Join("testdata", "bootstrap", name)
				if *update {
					if err := os.WriteFile(out, shown, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(out)
				if err != nil {
					t.Fatalf("%v (go test -update writes it)", err)
				}
				if diff := cmp.Diff(string(want), string(shown)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", out, diff)
				}
			}
			golden(name+".yaml", got)
			if o.SecretsDir != "" {
				ofCertificate, ofAuthority, err := SecretFiles(o)
				if err != nil {
					t.Fatal(err)
				}
				for file, text := range map[string][]byte{CertificateFileName: ofCertificate, AuthorityFileName: ofAuthority} {
					golden(name+"-"+file, text)
					// Envoy looks for these files.
					if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			for range 5 {
				if again, err := Bootstrap(o); err != nil || !bytes.Equal(again, got) {
					t.Fatalf("another time it is another: %v\n%s", err, again)
				}
			}
			validateEnvoy(t, got)
		})
	}
}

func TestBootstrapRefuses(t *testing.T) {
	const xds = "xds:5678"
	tests := map[string]struct {
		options BootstrapOptions
		want    string
	}{
		"no address":            {BootstrapOptions{}, "the xDS address is \"\"; expected host:port"},
		"no port":               {BootstrapOptions{XDSAddress: "xds"}, "expected host:port"},
		"port out of range":     {BootstrapOptions{XDSAddress: "xds:65536"}, "expected host:port"},
		"port 0":                {BootstrapOptions{XDSAddress: "xds:0"}, "expected host:port"},
		"no host":               {BootstrapOptions{XDSAddress: ":5678"}, "expected host:port"},
		"admin address":         {BootstrapOptions{XDSAddress: xds, AdminAddress: "9901"}, "the admin address is \"9901\""},
		"one port for both":     {BootstrapOptions{XDSAddress: xds, AdminAddress: "[::]:9902"}, "are both 9902; expected two ports"},
		"one port for /ready":   {BootstrapOptions{XDSAddress: xds, AdminAddress: "[::]:9903"}, "the ready port is 9903"},
		"empty namespace":       {BootstrapOptions{XDSAddress: xds, Namespaces: []string{"a", ""}}, "namespaces is empty"},
		"certificate alone":     {BootstrapOptions{XDSAddress: xds, CertFile: "c", KeyFile: "k"}, "three files"},
		"authority alone":       {BootstrapOptions{XDSAddress: xds, CAFile: "c"}, "three files"},
		"a name without files":  {BootstrapOptions{XDSAddress: xds, ServerName: "x"}, "server name"},
		"secrets without files": {BootstrapOptions{XDSAddress: xds, SecretsDir: "/etc/envoy"}, "directory of secrets"},
		"fallback address":      {BootstrapOptions{XDSAddress: xds, CAFile: "a", CertFile: "c", KeyFile: "k", FallbackAddress: "8081"}, "the fallback address is \"8081\"; expected host:port"},
		"negative connections":  {BootstrapOptions{XDSAddress: xds, MaxConnections: -1}, "more than 0"},
		"only one file of them": {BootstrapOptions{XDSAddress: xds, KeyFile: "k"}, "three files"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Bootstrap(tt.options)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q; made %d bytes", err, tt.want, len(got))
			}
			if _, _, again := SecretFiles(tt.options); again == nil || again.Error() != err.Error() {
				t.Errorf("files of secrets: %v, want %v", again, err)
			}
		})
	}
	if _, _, err := SecretFiles(BootstrapOptions{XDSAddress: xds}); err == nil || !strings.Contains(err.Error(), "there is none") {
		t.Errorf("files of secrets without a directory: %v", err)
	}
}

// certificate writes a self-signed certificate and its key.
func certificate(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"xds"}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}
