package xds

import "time"

// Settings say how the server treats its connections. The zero value is not
// useful: begin with DefaultSettings.
type Settings struct {
	// KeepaliveTime is how long a connection may be idle before the server sends a
	// keep-alive ping, and KeepaliveTimeout how long the client has to answer; above 0.
	KeepaliveTime, KeepaliveTimeout time.Duration
	// KeepaliveMinTime is the shortest time between two keep-alive pings of a client;
	// a client that sends them more often is cut off. 0 or more.
	KeepaliveMinTime time.Duration
	// MaxConnectionAge is about how old a connection becomes before its Envoy has to
	// make another, which may be to another interceptor; a second or more, 0 for no
	// limit. Its stream ends at 1.1 to 1.3 times the age, once the Envoy has answered
	// everything, and is cut at twice the age.
	MaxConnectionAge time.Duration
	// MaxConcurrentStreams bounds the streams of one connection, and those of all
	// connections from one address, and MaxStreams those of all; above 0. An Envoy has
	// two streams on one connection, and up to four while it makes another connection.
	MaxConcurrentStreams uint32
	MaxStreams           int
	// Linger is how long a cluster that is gone stays in an Envoy after the
	// last virtual host that named it was replaced there; 0 or more. It is for
	// requests that chose the cluster just before, and for their retries.
	Linger time.Duration
	// RequireNamespaces turns Envoys away whose certificate names no namespace. It
	// is for a Server that is served with TLS, and asks for certificates.
	RequireNamespaces bool
}

// DefaultSettings returns the settings of an interceptor that is given none.
func DefaultSettings() Settings {
	return Settings{
		KeepaliveTime:        30 * time.Second,
		KeepaliveTimeout:     5 * time.Second,
		KeepaliveMinTime:     5 * time.Second,
		MaxConnectionAge:     30 * time.Minute,
		MaxConcurrentStreams: 40,
		MaxStreams:           4000,
		Linger:               5 * time.Second,
	}
}
