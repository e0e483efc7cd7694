package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/proxy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// Where KEDA's chart mounts the certificate.
const (
	chartCertFile = "/certs/tls.crt"
	chartKeyFile  = "/certs/tls.key"
)

// ownNamespaceFile is the file from which a pod reads its own namespace.
const ownNamespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// options are all settings of the interceptor.
type options struct {
	level, format string

	// watched is the namespace that is served, or empty for all; own is the
	// namespace of this pod, or empty if its variable is not set.
	watched, own    string
	fallbackService string
	policy          routes.Policy

	proxyPort, tlsPort, adminPort, metricsPort, fallbackPort uint16
	certFile, keyFile                                        string

	drainDelay, shutdownTimeout time.Duration
	proxy                       proxy.Settings
	xds                         xdsOptions

	// asked has the variables that were read, set tells which of them are not empty, and
	// ineffective has those without effect because of other settings, and why.
	asked, set  map[string]bool
	ineffective map[string]string
}

// Variables that are used in more than one place.
const (
	ownNamespace = "KEDA_HTTP_CURRENT_NAMESPACE"
	tlsEnabled   = "KEDA_HTTP_PROXY_TLS_ENABLED"
	tlsPort      = "KEDA_HTTP_PROXY_TLS_PORT"
)

// readOptions returns the defaults, overridden by the variables that users of KEDA's and
// Kedify's charts set.
func readOptions(lookup func(string) (string, bool)) (*options, error) {
	o := &options{
		level: "info", format: "json",
		fallbackService: "keda-add-ons-http-interceptor-fallback",
		policy:          routes.DefaultPolicy(),
		proxyPort:       8080, tlsPort: 8443, adminPort: 9090, metricsPort: 2223, fallbackPort: 8081,
		drainDelay: 5 * time.Second, shutdownTimeout: 25 * time.Second,
		proxy: proxy.DefaultSettings(),
		asked: make(map[string]bool), set: make(map[string]bool), ineffective: make(map[string]string),
	}
	environment := lookup
	lookup = func(name string) (string, bool) {
		text, ok := environment(name)
		o.asked[name], o.set[name] = true, text != ""
		return text, ok
	}
	var wrong []error
	for _, port := range []struct {
		name string
		into *uint16
	}{
		{"KEDA_HTTP_PROXY_PORT", &o.proxyPort},
		{"KEDA_HTTP_ADMIN_PORT", &o.adminPort},
		{tlsPort, &o.tlsPort},
	} {
		wrong = append(wrong, readNumber(lookup, port.name, "a port from 1 to 65535", port.into))
	}
	o.watched, _ = lookup("KEDA_HTTP_WATCH_NAMESPACE")
	o.own, _ = lookup(ownNamespace)
	wrong = append(wrong, o.readTLS(lookup), o.proxy.ReadEnvironment(lookup), o.xds.readEnvironment(lookup))
	return o, errors.Join(wrong...)
}

// readNumber reads a number above 0 from a variable. The number into stays as it is when
// the variable is not set, empty or invalid.
func readNumber[T uint16 | uint32](lookup func(string) (string, bool), name, expected string, into *T) error {
	text, _ := lookup(name)
	if text == "" {
		return nil
	}
	number, err := strconv.ParseUint(text, 10, 32)
	if err != nil || number == 0 || uint64(T(number)) != number {
		return fmt.Errorf("environment variable %s is %q; expected %s", name, text, expected)
	}
	*into = T(number)
	return nil
}

func (o *options) readTLS(lookup func(string) (string, bool)) error {
	const certPath, keyPath = "KEDA_HTTP_PROXY_TLS_CERT_PATH", "KEDA_HTTP_PROXY_TLS_KEY_PATH"
	on := false
	if text, _ := lookup(tlsEnabled); text != "" {
		var err error
		if on, err = strconv.ParseBool(text); err != nil {
			return fmt.Errorf("environment variable %s is %q; expected true or false", tlsEnabled, text)
		}
	}
	for _, file := range []struct {
		name, standard string
		into           *string
	}{{certPath, chartCertFile, &o.certFile}, {keyPath, chartKeyFile, &o.keyFile}} {
		text, _ := lookup(file.name)
		switch {
		case on && text != "":
			*file.into = text
		case on:
			*file.into = file.standard
		case text != "":
			o.ineffective[file.name] = tlsEnabled + " is not true"
		}
	}
	return nil
}

func (o *options) flags(f *pflag.FlagSet) {
	f.StringVar(&o.level, "log-level", o.level, "least level logged: debug, info, warn or error")
	f.StringVar(&o.format, "log-format", o.format, "json or text")

	f.StringVar(&o.watched, "watch-namespace", o.watched, "the one namespace whose HTTPScaledObjects are served; all when empty (KEDA_HTTP_WATCH_NAMESPACE)")
	f.StringVar(&o.fallbackService, "fallback-service", o.fallbackService, "Service of the interceptor itself that kedify-proxies send requests without an endpoint to, at its port named fallback or the only one, as [<namespace>/]<name>; without a namespace in that of this pod (KEDA_HTTP_CURRENT_NAMESPACE); empty for none; with mutual TLS the --fallback-address of their bootstrap is used instead")

	f.BoolVar(&o.policy.HostOwnership, "host-ownership", o.policy.HostOwnership, "a host belongs to the namespace of the oldest HTTPScaledObject that names it: those of other namespaces are not served for it, unless an annotation of that object allows it")
	f.IntVar(&o.policy.MaxWildcardMatchesPerNamespace, "max-wildcard-matches-per-namespace", o.policy.MaxWildcardMatchesPerNamespace, "matches (path prefixes times headers) of all wildcard hosts above one host, and the same of any host, for all HTTPScaledObjects of a namespace together; past it the newest are not served")
	f.IntVar(&o.policy.MaxWildcardMatches, "max-wildcard-matches", o.policy.MaxWildcardMatches, "the same for all namespaces that a proxy serves together")

	f.Uint16Var(&o.proxyPort, "proxy-port", o.proxyPort, "port of the embedded proxy (KEDA_HTTP_PROXY_PORT)")
	f.Uint16Var(&o.tlsPort, "tls-port", o.tlsPort, "port of the embedded proxy with TLS, when there is a certificate (KEDA_HTTP_PROXY_TLS_PORT)")
	f.Uint16Var(&o.adminPort, "admin-port", o.adminPort, "port of /healthz, /readyz, /debug/routes and /debug/envoys (KEDA_HTTP_ADMIN_PORT)")
	f.Uint16Var(&o.metricsPort, "metrics-port", o.metricsPort, "port of /metrics")
	f.Uint16Var(&o.fallbackPort, "fallback-port", o.fallbackPort, "port for requests of kedify-proxies that have no endpoint for them; nobody else may reach it; with mutual TLS they connect to the --fallback-address of their bootstrap")
	f.StringVar(&o.certFile, "tls-cert-file", o.certFile, "certificate of the embedded proxy, PEM; read again when it changes (KEDA_HTTP_PROXY_TLS_CERT_PATH)")
	f.StringVar(&o.keyFile, "tls-key-file", o.keyFile, "key of the certificate, PEM (KEDA_HTTP_PROXY_TLS_KEY_PATH)")

	f.DurationVar(&o.drainDelay, "drain-delay", o.drainDelay, "how long requests are still taken after SIGTERM, until everybody knows that this replica is leaving")
	f.DurationVar(&o.shutdownTimeout, "shutdown-timeout", o.shutdownTimeout, "how long requests under way may take after that before they are cut")

	o.xds.flags(f)
	takeFlagsWithoutEffect(f)

	p := &o.proxy
	f.DurationVar(&p.ConnectTimeout, "connect-timeout", p.ConnectTimeout, "how long connecting to an endpoint may take (KEDA_HTTP_CONNECT_TIMEOUT)")
	f.DurationVar(&p.ResponseHeader, "response-header-timeout", p.ResponseHeader, "how long an application may take to begin its answer where its HTTPScaledObject does not say; 0 is for as long as it likes (KEDA_RESPONSE_HEADER_TIMEOUT)")
	f.DurationVar(&p.ConditionWait, "condition-wait-timeout", p.ConditionWait, "how long a request waits for a first endpoint where its HTTPScaledObject does not say (KEDA_CONDITION_WAIT_TIMEOUT)")
	f.DurationVar(&p.ExpectContinue, "expect-continue-timeout", p.ExpectContinue, "how long a body is kept back from an application that does not answer Expect: 100-continue; embedded proxy only (KEDA_HTTP_EXPECT_CONTINUE_TIMEOUT)")
	f.DurationVar(&p.KeepAlive, "keep-alive", p.KeepAlive, "interval of keep-alive probes of TCP and HTTP/2 (KEDA_HTTP_KEEP_ALIVE)")
	f.DurationVar(&p.UserTimeout, "tcp-user-timeout", p.UserTimeout, "how long an application may take none of what is sent to it, because its node is gone or it does not read; its connection is given up then (TCP's user timeout); 0 is for as long as the kernel allows")
	f.IntVar(&p.MaxIdleConns, "max-idle-conns", p.MaxIdleConns, "unused connections to applications that are kept, 0 for any number; embedded proxy only (KEDA_HTTP_MAX_IDLE_CONNS)")
	f.IntVar(&p.MaxIdleConnsPerEndpoint, "max-idle-conns-per-endpoint", p.MaxIdleConnsPerEndpoint, "of these, to one endpoint; embedded proxy only")
	f.DurationVar(&p.IdleConnTimeout, "idle-conn-timeout", p.IdleConnTimeout, "how long an unused connection to an application is kept; 0 is for ever (KEDA_HTTP_IDLE_CONN_TIMEOUT)")
	f.IntVar(&p.MaxHeld, "max-held", p.MaxHeld, "requests that may wait for endpoints at a time")
	f.IntVar(&p.MaxHeldPerRoute, "max-held-per-route", p.MaxHeldPerRoute, "of these, for one HTTPScaledObject")
	f.Int64Var(&p.MaxHeldBytes, "max-held-bytes", p.MaxHeldBytes, "bytes that waiting requests may keep in memory: 48 KiB each for itself and its connection, its header, the part of its body that has come, and the part that the client can send before it is read")
	f.DurationVar(&p.RetryAfter, "retry-after", p.RetryAfter, "what clients are told when there is no endpoint for them; whole seconds")
	f.IntVar(&p.MaxHeaderBytes, "max-header-bytes", p.MaxHeaderBytes, "largest header of a request or response, in bytes; kedify-proxies round up to KiB, and take 8 MiB at most")
	f.DurationVar(&p.ReadHeader, "read-header-timeout", p.ReadHeader, "how long a client may take to send a header")
	f.DurationVar(&p.Idle, "idle-timeout", p.Idle, "how long a client's connection is kept between requests")
	f.DurationVar(&p.SendTimeout, "send-timeout", p.SendTimeout, "how long a client may take none of what waits to be sent to it before it is given up; 0 is for as long as it likes")
	f.IntVar(&p.MaxConnections, "max-connections", p.MaxConnections, "connections of clients, and apart from these of kedify-proxies, that may be open at a time; those beyond are closed; embedded proxy only, kedify-proxies have theirs in their bootstrap")
	f.IntVar(&p.MaxStreams, "max-streams", p.MaxStreams, "requests at a time of one HTTP/2 connection")
	f.BoolVar(&p.Edge, "edge", p.Edge, "clients reach the interceptor or the kedify-proxies without an ingress between: the headers Forwarded, X-Forwarded-* and X-Real-Ip that they send are dropped")
}

func (o *options) validate() error {
	if (o.certFile == "") != (o.keyFile == "") {
		return errors.New("--tls-cert-file and --tls-key-file: give both, or neither for no TLS")
	}
	for _, port := range []struct {
		flag   string
		number uint16
	}{
		{"--proxy-port", o.proxyPort}, {"--tls-port", o.tlsPort}, {"--admin-port", o.adminPort},
		{"--metrics-port", o.metricsPort}, {"--fallback-port", o.fallbackPort},
	} {
		if port.number == 0 {
			return fmt.Errorf("%s is 0; expected a port from 1 to 65535", port.flag)
		}
	}
	if err := o.validateFallback(); err != nil {
		return err
	}
	if o.drainDelay < 0 || o.shutdownTimeout <= 0 {
		return errors.New("--drain-delay and --shutdown-timeout: expected 0s or more, and more than 0s")
	}
	if p := o.policy; p.MaxWildcardMatchesPerNamespace < 1 || p.MaxWildcardMatches < p.MaxWildcardMatchesPerNamespace {
		return errors.New("--max-wildcard-matches-per-namespace: expected 1 or more, and --max-wildcard-matches: expected no less than that")
	}
	if err := o.xds.validate(); err != nil {
		return err
	}
	return o.proxy.Validate()
}

func (o *options) validateFallback() error {
	if o.fallbackService == "" {
		return nil
	}
	for part := range strings.SplitSeq(o.fallbackService, "/") {
		if len(validation.IsDNS1123Label(part)) > 0 || strings.Count(o.fallbackService, "/") > 1 {
			return fmt.Errorf("--fallback-service is %q; expected the name of a Service as [<namespace>/]<name>, or nothing for none", o.fallbackService)
		}
	}
	return nil
}

// fallback returns the name of the fallback Service; the zero value for none.
func (o *options) fallback() (types.NamespacedName, error) {
	if o.fallbackService == "" {
		return types.NamespacedName{}, nil
	}
	if namespace, name, ok := strings.Cut(o.fallbackService, "/"); ok {
		return types.NamespacedName{Namespace: namespace, Name: name}, nil
	}
	own := o.own
	if own == "" {
		text, err := os.ReadFile(ownNamespaceFile)
		if errors.Is(err, os.ErrNotExist) {
			// Outside of a cluster, where no kedify-proxy finds us anyway.
			return types.NamespacedName{}, nil
		}
		if err != nil {
			return types.NamespacedName{}, fmt.Errorf("the namespace of this pod, which --fallback-service is in: %w", err)
		}
		own = strings.TrimSpace(string(text))
	}
	return types.NamespacedName{Namespace: own, Name: o.fallbackService}, nil
}
