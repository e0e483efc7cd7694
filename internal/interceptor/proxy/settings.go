package proxy

import (
	"net"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// Settings say how a Proxy and its Server behave. The zero value is not useful:
// begin with DefaultSettings.
type Settings struct {
	// ConnectTimeout is how long connecting to an endpoint may take before
	// another is tried; above 0.
	ConnectTimeout time.Duration
	// ResponseHeader is how long an application may take to answer with
	// headers once it has the whole request, where its route sets no limit; 0
	// is for none.
	ResponseHeader time.Duration
	// ExpectContinue is how long a body is kept back from an application that
	// does not answer "Expect: 100-continue"; above 0.
	ExpectContinue time.Duration
	// KeepAlive is the interval of TCP keep-alive probes, on both sides; above 0.
	KeepAlive time.Duration
	// UserTimeout is how long a connection to an application is kept while the
	// application accepts nothing that is sent to it, because it is gone or does not
	// read; 0 is for as long as the kernel allows.
	UserTimeout time.Duration
	// MaxIdleConns and MaxIdleConnsPerEndpoint bound the idle HTTP/1.1 connections
	// to all applications together and to one endpoint; MaxIdleConns is 0 for any
	// number, MaxIdleConnsPerEndpoint above 0.
	MaxIdleConns, MaxIdleConnsPerEndpoint int
	// IdleConnTimeout is how long an idle connection to an application is kept; 0 is
	// for ever.
	IdleConnTimeout time.Duration

	// MaxUpstreamRequests bounds the requests under way to each Service of an object,
	// with tunnels; 0 is for any number.
	MaxUpstreamRequests int

	// ConditionWait is how long a request waits for a first endpoint, where its
	// route sets no time; 0 is not at all.
	ConditionWait time.Duration
	// MaxHeld and MaxHeldPerRoute bound the requests that wait for endpoints, on all
	// routes together and on one; 0 is for none. When MaxHeld is short, the namespaces
	// and their routes share it.
	MaxHeld, MaxHeldPerRoute int
	// MaxHeldBytes bounds the memory of waiting requests, in bytes: 48 KiB for each
	// and its connection, its header, and the part of its body that can be here. It is
	// shared like MaxHeld.
	MaxHeldBytes int64
	// RetryAfter is the value of the Retry-After header in answers with 503; whole
	// seconds, at least 1.
	RetryAfter time.Duration

	// MaxHeaderBytes bounds the header of a request and of a response; above
	// 0. Go's server allows 4096 bytes more.
	MaxHeaderBytes int
	// ReadHeader is how long a client may take to send a header, or a TLS
	// handshake; above 0.
	ReadHeader time.Duration
	// Idle is how long a connection of a client is kept between requests;
	// above 0.
	Idle time.Duration
	// SendTimeout is how long a client may accept nothing of what waits to be sent to
	// it; 0 is for as long as it likes. In HTTP/2 it applies to each 32 KiB of an
	// answer.
	SendTimeout time.Duration
	// MaxConnections bounds the connections of clients and, counted separately, the
	// connections of kedify-proxies; above 0. Further connections are closed.
	MaxConnections int
	// MaxStreams bounds the concurrent requests of one HTTP/2 connection; above 0.
	MaxStreams int
	// Edge tells that clients connect without an ingress between: the headers
	// Forwarded, X-Forwarded-* and X-Real-Ip that they send are not trusted, and are
	// dropped. Otherwise the headers are taken to be an ingress's, and kept.
	Edge bool

	// Tracer makes the spans of requests and tries; nil for none.
	Tracer trace.Tracer

	// AccessLog says which requests are logged, and AccessLogFormat how: constants of
	// package routes. WriteAccessLog writes the log.
	AccessLog, AccessLogFormat string
}

// DefaultSettings returns the settings of an interceptor without flags and environment
// variables.
func DefaultSettings() Settings {
	return Settings{
		ConnectTimeout:          time.Second,
		ExpectContinue:          time.Second,
		KeepAlive:               30 * time.Second,
		UserTimeout:             time.Minute,
		MaxIdleConns:            4096,
		MaxIdleConnsPerEndpoint: 256,
		IdleConnTimeout:         90 * time.Second,
		MaxUpstreamRequests:     8192, // as in Kedify's charts
		ConditionWait:           20 * time.Second,
		MaxHeld:                 4000,
		MaxHeldPerRoute:         2000,
		MaxHeldBytes:            192 << 20,
		RetryAfter:              5 * time.Second,
		MaxHeaderBytes:          64 << 10,
		ReadHeader:              10 * time.Second,
		Idle:                    3 * time.Minute,
		SendTimeout:             5 * time.Minute,
		MaxConnections:          50_000,
		MaxStreams:              250,
		AccessLog:               routes.AccessLogOff,
		AccessLogFormat:         routes.AccessLogJSON,
	}
}

// pingTimeout is how long a peer may take to answer an HTTP/2 ping.
const pingTimeout = 15 * time.Second

// probes returns the TCP keep-alive settings of both sides: a peer is gone after three
// probes without an answer.
func (s *Settings) probes() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: s.KeepAlive, Interval: s.KeepAlive, Count: 3}
}
