package main

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/settings"
)

func TestFilesOfMutualTLS(t *testing.T) {
	a := newAuthority(t, "authority")
	certFile, keyFile := a.files("interceptor", a.sign("interceptor", ecdsaKey(t)))
	missing, text := filepath.Join(t.TempDir(), "missing"), a.write("text", []byte("no certificate"))
	for name, tt := range map[string]struct {
		files [3]string // certificate, key, authority
		says  string    // empty for no error
	}{
		"all":                  {files: [3]string{certFile, keyFile, a.file("ca.crt")}},
		"missing certificate":  {files: [3]string{missing, keyFile, a.file("ca.crt")}, says: "--xds-cert-file"},
		"another's key":        {files: [3]string{certFile, text, a.file("ca.crt")}, says: "--xds-key-file"},
		"missing authority":    {files: [3]string{certFile, keyFile, missing}, says: "--xds-client-ca-file"},
		"authority of no form": {files: [3]string{certFile, keyFile, text}, says: "--xds-client-ca-file: authority of clients " + text + ": no certificate in it"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &settings.Settings{XDSCertFile: tt.files[0], XDSKeyFile: tt.files[1], XDSClientCAFile: tt.files[2]}
			config, err := serverTLS(o, slog.New(slog.DiscardHandler))
			switch {
			case tt.says == "" && (err != nil || config == nil):
				t.Errorf("configuration %v, %v", config, err)
			case tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)):
				t.Errorf("error %v, want %q in it", err, tt.says)
			}
		})
	}
	if config, err := serverTLS(new(settings.Settings), nil); config != nil || err != nil {
		t.Errorf("without files: %v, %v; want plain HTTP/2", config, err)
	}
}
