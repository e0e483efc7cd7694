package settings

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"
)

// read returns the settings that result from variables and flags.
func read(variables map[string]string, args ...string) (*Settings, *pflag.FlagSet, error) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	s, err := New(flags, func(name string) (string, bool) { v, ok := variables[name]; return v, ok })
	if err == nil {
		err = flags.Parse(args)
	}
	if err == nil {
		err = s.Validate()
	}
	return s, flags, err
}

func TestVariablesAndFlags(t *testing.T) {
	for name, tc := range map[string]struct {
		variables map[string]string
		args      []string
		change    func(*Settings) // of the defaults
	}{
		"an empty variable": {variables: map[string]string{"KEDA_HTTP_PROXY_PORT": "", "KEDA_RESPONSE_HEADER_TIMEOUT": ""}, change: func(*Settings) {}},
		"variables": {
			variables: map[string]string{
				"KEDA_HTTP_PROXY_PORT": "81", "KEDA_HTTP_ADMIN_PORT": "82", "KEDA_CONDITION_WAIT_TIMEOUT": "3s", "KEDA_HTTP_WATCH_NAMESPACE": "demo",
				"KEDA_HTTP_MAX_IDLE_CONNS": "0", "KEDIFY_XDS_KEEPALIVE_ENFORCEMENT_POLICY_MIN_TIME": "4s", "KEDIFY_XDS_MAX_CONCURRENT_STREAMS": "5",
			},
			change: func(s *Settings) {
				s.ProxyPort, s.AdminPort, s.Proxy.ConditionWait, s.WatchNamespace = 81, 82, 3*time.Second, "demo"
				s.Proxy.MaxIdleConns, s.XDS.KeepaliveMinTime, s.XDS.MaxConcurrentStreams = 0, 4*time.Second, 5
			},
		},
		"flags win": {
			variables: map[string]string{"KEDA_HTTP_PROXY_PORT": "81", "KEDA_CONDITION_WAIT_TIMEOUT": "3s", "KEDIFY_XDS_MAX_CONCURRENT_STREAMS": "4"},
			args:      []string{"--proxy-port=83", "--condition-wait-timeout=4s", "--xds-max-concurrent-streams=5"},
			change: func(s *Settings) {
				s.ProxyPort, s.Proxy.ConditionWait, s.XDS.MaxConcurrentStreams = 83, 4*time.Second, 5
			},
		},
		"values at their bounds": {
			args: []string{"--xds-max-connection-age=0", "--xds-linger=0", "--retry-after=1s", "--kedify-proxy-address=::", "--tls-port=65535", "--response-header-timeout=2562047h47m15s"},
			change: func(s *Settings) {
				s.XDS.MaxConnectionAge, s.XDS.Linger, s.Proxy.RetryAfter, s.KedifyProxy.Address = 0, 0, time.Second, net.IPv6zero
				s.TLSPort, s.Proxy.ResponseHeader = 65535, 2562047*time.Hour+47*time.Minute+15*time.Second
			},
		},
		"TLS where a chart mounts it": {
			variables: map[string]string{"KEDA_HTTP_PROXY_TLS_ENABLED": "true", "KEDA_HTTP_PROXY_TLS_KEY_PATH": "/k", "KEDA_HTTP_PROXY_TLS_PORT": "443"},
			change:    func(s *Settings) { s.CertFile, s.KeyFile, s.TLSPort = "/certs/tls.crt", "/k", 443 },
		},
		"TLS that is off": {
			variables: map[string]string{"KEDA_HTTP_PROXY_TLS_ENABLED": "false", "KEDA_HTTP_PROXY_TLS_CERT_PATH": "/c"},
			change:    func(*Settings) {},
		},
		"TLS that is off, by flags on": {
			variables: map[string]string{"KEDA_HTTP_PROXY_TLS_CERT_PATH": "/c"},
			args:      []string{"--tls-cert-file=c", "--tls-key-file=k"},
			change:    func(s *Settings) { s.CertFile, s.KeyFile = "c", "k" },
		},
		"mutual TLS": {
			args: []string{"--xds-cert-file=c", "--xds-key-file=k", "--xds-client-ca-file=a", "--xds-require-namespaces"},
			change: func(s *Settings) {
				s.XDSCertFile, s.XDSKeyFile, s.XDSClientCAFile, s.XDS.RequireNamespaces = "c", "k", "a", true
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			want, _, err := read(nil)
			if err != nil {
				t.Fatal(err)
			}
			tc.change(want)
			got, _, err := read(tc.variables, tc.args...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Settings{})); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
		})
	}
}

// An invalid value is an error that names the variable or flag, the value, and what is
// expected.
func TestInvalidSettings(t *testing.T) {
	tests := map[string]struct {
		variables map[string]string
		args      []string
	}{
		`environment variable KEDA_HTTP_PROXY_PORT is "http"; expected a port from 1 to 65535, as for --proxy-port`:                               {variables: map[string]string{"KEDA_HTTP_PROXY_PORT": "http"}},
		`environment variable KEDA_HTTP_CONNECT_TIMEOUT is "1"; expected a duration such as 500ms or 20s, more than 0s, as for --connect-timeout`: {variables: map[string]string{"KEDA_HTTP_CONNECT_TIMEOUT": "1"}},
		`environment variable KEDA_HTTP_PROXY_TLS_ENABLED is "yes"; expected true or false`:                                                       {variables: map[string]string{"KEDA_HTTP_PROXY_TLS_ENABLED": "yes"}},
		`environment variable KEDA_HTTP_MAX_IDLE_CONNS is "-1"; expected 0 or more connections`:                                                   {variables: map[string]string{"KEDA_HTTP_MAX_IDLE_CONNS": "-1", "KEDA_HTTP_KEEP_ALIVE": "soon"}},
		`environment variable KEDA_HTTP_KEEP_ALIVE is "soon"`:                                                                                     {variables: map[string]string{"KEDA_HTTP_MAX_IDLE_CONNS": "-1", "KEDA_HTTP_KEEP_ALIVE": "soon"}},
		`environment variable KEDIFY_XDS_KEEPALIVE_TIMEOUT is "0s"; expected a duration such as 500ms or 20s, more than 0s`:                       {variables: map[string]string{"KEDIFY_XDS_KEEPALIVE_TIMEOUT": "0s"}},
		`environment variable KEDIFY_XDS_KEEPALIVE_ENFORCEMENT_POLICY_MIN_TIME is "-1s"; expected a duration such as 500ms or 20s, 0s or more`:    {variables: map[string]string{"KEDIFY_XDS_KEEPALIVE_ENFORCEMENT_POLICY_MIN_TIME": "-1s"}},
		`environment variable KEDIFY_XDS_MAX_CONCURRENT_STREAMS is "0"; expected 1 or more streams`:                                               {variables: map[string]string{"KEDIFY_XDS_MAX_CONCURRENT_STREAMS": "0"}},
		`environment variable KEDIFY_HTTP_PROXY_MAX_UPSTREAM_CONNECTIONS is "-1"; expected 0 or more connections`:                                 {variables: map[string]string{"KEDIFY_HTTP_PROXY_MAX_UPSTREAM_CONNECTIONS": "-1"}},
		`environment variable KEDIFY_HTTP_PROXY_MAX_UPSTREAM_REQUESTS is "4294967296"; expected 0 or more`:                                        {variables: map[string]string{"KEDIFY_HTTP_PROXY_MAX_UPSTREAM_REQUESTS": "4294967296"}},
		`invalid argument "6060" for "--profiling-bind-address" flag: expected host:port such as localhost:6060, or nothing for none`:             {args: []string{"--profiling-bind-address=6060"}},
		`invalid argument "0" for "--admin-port" flag: expected a port from 1 to 65535`:                                                           {args: []string{"--admin-port=0"}},
		`invalid argument "65536" for "--kedify-proxy-port" flag: expected a port from 1 to 65535`:                                                {args: []string{"--kedify-proxy-port=65536"}},
		`invalid argument "1ms" for "--retry-after" flag: expected a duration such as 500ms or 20s, 1s or more`:                                   {args: []string{"--retry-after=1ms"}},
		`invalid argument "10ms" for "--xds-max-connection-age" flag: expected a duration such as 500ms or 20s, 1s or more, or 0`:                 {args: []string{"--xds-max-connection-age=10ms"}},
		`invalid argument "2562047h47m16s" for "--response-header-timeout" flag: expected a duration such as 500ms or 20s, 0s to 2562047h47m15s`:  {args: []string{"--response-header-timeout=2562047h47m16s"}},
		`invalid argument "0s" for "--shutdown-timeout" flag: expected a duration such as 500ms or 20s, more than 0s`:                             {args: []string{"--shutdown-timeout=0s"}},
		`invalid argument "-1" for "--max-held-bytes" flag: expected 0 or more bytes`:                                                             {args: []string{"--max-held-bytes=-1"}},
		`invalid argument "loud" for "--log-level" flag: expected debug, info, warn or error`:                                                     {args: []string{"--log-level=loud"}},
		`invalid argument "xml" for "--log-format" flag: expected json or text`:                                                                   {args: []string{"--log-format=xml"}},
		`invalid argument "/x" for "--fallback-service" flag: expected the name of a Service as [<namespace>/]<name>, or nothing for none`:        {args: []string{"--fallback-service=/x"}},
		`invalid argument "x/" for "--fallback-service"`:                                                                                          {args: []string{"--fallback-service=x/"}},
		`invalid argument "x.keda" for "--fallback-service"`:                                                                                      {args: []string{"--fallback-service=x.keda"}},
		`invalid argument "a/b/c" for "--fallback-service"`:                                                                                       {args: []string{"--fallback-service=a/b/c"}},
		`invalid argument "[::]" for "--kedify-proxy-address" flag: expected an IP address such as 0.0.0.0 or ::`:                                 {args: []string{"--kedify-proxy-address=[::]"}},
		`invalid argument "fe80::1%eth0" for "--kedify-proxy-address"`:                                                                            {args: []string{"--kedify-proxy-address=fe80::1%eth0"}},
		`invalid argument "0" for "--max-wildcard-matches-per-namespace" flag: expected 1 or more matches`:                                        {args: []string{"--max-wildcard-matches-per-namespace=0"}},
		"--max-wildcard-matches is 99; expected no less than --max-wildcard-matches-per-namespace, which is 100":                                  {args: []string{"--max-wildcard-matches=99"}},
		"--kedify-proxy-port and --kedify-proxy-tls-port are both 80":                                                                             {args: []string{"--kedify-proxy-port=80", "--kedify-proxy-tls-port=80"}},
		"--tls-cert-file and --tls-key-file: give both":                                                                                           {args: []string{"--tls-key-file=k"}},
		"--xds-cert-file, --xds-key-file and --xds-client-ca-file: give all":                                                                      {args: []string{"--xds-cert-file=c", "--xds-key-file=k"}},
		"--xds-client-ca-file: give all":             {args: []string{"--xds-client-ca-file=a"}},
		"--xds-require-namespaces is for mutual TLS": {args: []string{"--xds-require-namespaces"}},
	}
	for says, tc := range tests {
		t.Run(says, func(t *testing.T) {
			if _, _, err := read(tc.variables, tc.args...); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// Each default is accepted, and each setting has a flag or a variable, and a usage.
func TestDefaultsAreValid(t *testing.T) {
	for _, r := range defaults() {
		if value := r.newFlag(); r.noEffect == "" && (r.usage == "" || value.Value.Set(value.DefValue) != nil) {
			t.Errorf("%s: default %q, usage %q", value.Name, value.DefValue, r.usage)
		}
	}
}
