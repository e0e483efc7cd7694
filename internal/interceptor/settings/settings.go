// Package settings has the settings of the interceptor in one table (see Settings.rows).
// Its flags, environment variables, their checks, the lines of the log about those
// without effect, and the tables in docs/reference/settings.md are made from it.
package settings

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/proxy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/xds"
)

// Where KEDA's chart mounts the certificate.
const (
	chartCertFile = "/certs/tls.crt"
	chartKeyFile  = "/certs/tls.key"
)

// Settings are the settings of the interceptor. The table says what each is for.
type Settings struct {
	LogLevel, LogFormat string

	// WatchNamespace is empty for all namespaces, and PodNamespace if its variable is
	// not set.
	WatchNamespace, PodNamespace string
	FallbackService              string
	APIServerTimeout             time.Duration
	Policy                       routes.Policy

	ProxyPort, TLSPort, AdminPort, MetricsPort, FallbackPort uint16
	CertFile, KeyFile                                        string

	// AdminConnections and AdminConnectionsPerAddress bound the connections of AdminPort,
	// and those of MetricsPort.
	AdminConnections, AdminConnectionsPerAddress int
	// ProfilingAddress is empty for no profiles.
	ProfilingAddress string

	DrainDelay, ShutdownTimeout time.Duration

	Proxy proxy.Settings

	XDS                                      xds.Settings
	XDSPort                                  uint16
	XDSConnections, XDSConnectionsPerAddress int
	XDSCertFile, XDSKeyFile, XDSClientCAFile string

	KedifyProxy KedifyProxy

	chartTLS         bool   // KEDA_HTTP_PROXY_TLS_ENABLED
	chartLogRequests bool   // KEDA_HTTP_LOG_REQUESTS
	chartAccessLog   string // KEDIFY_PROXY_ACCESS_LOG_TYPE
}

// KedifyProxy are the settings that only kedify-proxies have. The limits are those of
// each cluster, 0 for none.
type KedifyProxy struct {
	Address                                                     net.IP
	Port, TLSPort                                               uint16
	MaxConnections, MaxPendingRequests, MaxRequests, MaxRetries uint32

	AccessLog, AccessLogFormat string
}

// readChartLogs applies the variables of the charts for access logs, which flags override.
func (s *Settings) readChartLogs() {
	if s.chartLogRequests {
		s.Proxy.AccessLog = routes.AccessLogAll
	}
	if s.chartAccessLog != "" {
		s.KedifyProxy.AccessLog, s.KedifyProxy.AccessLogFormat = routes.AccessLogAll, s.chartAccessLogFormat()
	}
}

func (s *Settings) chartAccessLogFormat() string {
	if s.chartAccessLog == "plaintext" {
		return routes.AccessLogText
	}
	return routes.AccessLogJSON
}

func isChartAccessLog(text string) bool { return text == "" || text == "json" || text == "plaintext" }

// New returns the defaults, overridden by the environment variables that users of KEDA's
// and Kedify's charts set, and adds the flags that override these when they are parsed.
// lookup is os.LookupEnv; an empty variable counts as not set. The error lists each
// variable with an invalid value.
func New(flags *pflag.FlagSet, lookup func(string) (string, bool)) (*Settings, error) {
	s := &Settings{
		LogLevel: "info", LogFormat: "json",
		FallbackService:  "keda-add-ons-http-interceptor-fallback",
		APIServerTimeout: 30 * time.Second,
		Policy:           routes.DefaultPolicy(),
		ProxyPort:        8080, TLSPort: 8443, AdminPort: 9090, MetricsPort: 2223, AdminConnections: 100, AdminConnectionsPerAddress: 20, FallbackPort: 8081,
		DrainDelay: 5 * time.Second, ShutdownTimeout: 25 * time.Second,
		Proxy: proxy.DefaultSettings(),
		XDS:   xds.DefaultSettings(), XDSPort: 5678, XDSConnections: 2000, XDSConnectionsPerAddress: 20,
		KedifyProxy: KedifyProxy{
			Address: net.IPv4zero, Port: 8080, TLSPort: 8443,
			MaxConnections: 8192, MaxPendingRequests: 8192, MaxRequests: 8192, // as in Kedify's charts
			AccessLog: routes.AccessLogOff, AccessLogFormat: routes.AccessLogJSON,
		},
	}
	var wrong []error
	for _, r := range s.rows() {
		flag := r.newFlag()
		if r.flag != "" {
			flags.AddFlag(flag)
		}
		if text, _ := lookup(r.variable); text != "" && r.noEffect == "" {
			if err := flag.Value.Set(text); err != nil {
				if r.flag != "" {
					err = fmt.Errorf("%w, as for --%s", err, r.flag)
				}
				wrong = append(wrong, fmt.Errorf("environment variable %s is %q; %w", r.variable, text, err))
			}
		}
	}
	s.readChartLogs()
	if s.chartTLS {
		s.CertFile, s.KeyFile = cmp.Or(s.CertFile, chartCertFile), cmp.Or(s.KeyFile, chartKeyFile)
	} else {
		s.CertFile, s.KeyFile = "", ""
	}
	return s, errors.Join(wrong...)
}

// Validate returns an error if settings contradict each other. Call it when the flags
// are parsed.
func (s *Settings) Validate() error {
	if (s.CertFile == "") != (s.KeyFile == "") {
		return errors.New("--tls-cert-file and --tls-key-file: give both, or neither for no TLS")
	}
	if p := s.Policy; p.MaxWildcardMatches < p.MaxWildcardMatchesPerNamespace {
		return fmt.Errorf("--max-wildcard-matches is %d; expected no less than --max-wildcard-matches-per-namespace, which is %d", p.MaxWildcardMatches, p.MaxWildcardMatchesPerNamespace)
	}
	if files := []string{s.XDSCertFile, s.XDSKeyFile, s.XDSClientCAFile}; slices.Contains(files, "") && strings.Join(files, "") != "" {
		return errors.New("--xds-cert-file, --xds-key-file and --xds-client-ca-file: give all for mutual TLS, or none for plain HTTP/2")
	}
	if s.XDS.RequireNamespaces && s.XDSCertFile == "" {
		return errors.New("--xds-require-namespaces is for mutual TLS: give --xds-cert-file, --xds-key-file and --xds-client-ca-file, too")
	}
	if s.KedifyProxy.Port == s.KedifyProxy.TLSPort {
		return fmt.Errorf("--kedify-proxy-port and --kedify-proxy-tls-port are both %d; expected two ports", s.KedifyProxy.Port)
	}
	return nil
}

// Envoy returns the options of kedify-proxies, which behave as the embedded proxy does,
// as far as both have the same settings.
func (s *Settings) Envoy() envoy.Options {
	p, k := &s.Proxy, &s.KedifyProxy
	address, _ := netip.AddrFromSlice(k.Address) // which is valid
	return envoy.Options{
		AccessLog: k.AccessLog, AccessLogFormat: k.AccessLogFormat,
		Address: address.Unmap(), HTTPPort: k.Port, TLSPort: k.TLSPort, TLS: s.CertFile != "", Edge: p.Edge,
		ResponseHeader: p.ResponseHeader,
		Connections: envoy.Connections{
			ConnectTimeout: p.ConnectTimeout, IdleConnTimeout: p.IdleConnTimeout, KeepAlive: p.KeepAlive, UserTimeout: p.UserTimeout,
			MaxHeaderBytes: p.MaxHeaderBytes, ReadHeader: p.ReadHeader, Idle: p.Idle, SendTimeout: p.SendTimeout, MaxStreams: p.MaxStreams,
		},
		MaxConnections: k.MaxConnections, MaxPendingRequests: k.MaxPendingRequests,
		MaxRequests: k.MaxRequests, MaxRetries: k.MaxRetries, RetryAfter: p.RetryAfter,
	}
}
