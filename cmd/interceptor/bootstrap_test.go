package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestBootstrapPrintsTheFileAskedFor(t *testing.T) {
	files := func(more ...string) []string {
		return append([]string{"--ca-file=/xds-certs/ca.crt", "--cert-file=/xds-certs/tls.crt", "--key-file=/xds-certs/tls.key"}, more...)
	}
	secrets := func(more ...string) []string { return files(append(more, "--secrets-dir=/etc/envoy")...) }
	for name, tt := range map[string]struct {
		args []string
		has  string // what is printed
		says string // the error
	}{
		"plain":               {nil, "id: kedify-proxy", ""},
		"namespaces":          {[]string{"--namespaces=shop,demo"}, "namespaces:\n    - demo\n    - shop\n", ""},
		"mutual TLS":          {files(), "filename: /xds-certs/tls.key", ""},
		"secrets":             {secrets(), "path: /etc/envoy/xds-certificate.yaml", ""},
		"certificate":         {secrets("--file=xds-certificate.yaml"), "filename: /xds-certs/tls.key", ""},
		"authority":           {secrets("--file=xds-authority.yaml"), "filename: /xds-certs/ca.crt", ""},
		"another xDS address": {[]string{"--xds-address=xds.other:5678"}, "address: xds.other", ""},
		"another xDS address, and mutual TLS": {
			files("--xds-address=xds.other:5678"), "",
			"--xds-address is xds.other:5678, and --fallback-address is left out; expected the fallback Service of the same interceptors, or --fallback-address= for none",
		},
		"both addresses":     {files("--xds-address=xds.other:5678", "--fallback-address=fallback.other:8081"), "address: fallback.other", ""},
		"no fallback":        {files("--xds-address=xds.other:5678", "--fallback-address="), "address: xds.other", ""},
		"no secrets":         {files("--file=xds-authority.yaml"), "", "there is none"},
		"no files":           {[]string{"--secrets-dir=/etc/envoy"}, "", "no files for it"},
		"a file there isn't": {secrets("--file=xds-key.yaml"), "", `--file is "xds-key.yaml"; expected envoy.yaml, xds-certificate.yaml or xds-authority.yaml`},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			c := newBootstrap()
			c.SetArgs(tt.args)
			c.SetOut(&out)
			c.SetErr(new(bytes.Buffer))
			err := c.Execute()
			if tt.says == "" && (err != nil || !strings.Contains(out.String(), tt.has)) {
				t.Errorf("%v, and %q is to be in:\n%s", err, tt.has, out.String())
			}
			if tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("error %v, want %q in it", err, tt.says)
			}
		})
	}
}
