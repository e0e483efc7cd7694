package xds

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

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
	// connections from one address; above 0. An Envoy has one connection and one stream.
	MaxConcurrentStreams uint32
	// Linger is how long a cluster that is gone stays in an Envoy after the
	// last virtual host that named it was replaced there; 0 or more. It is for
	// requests that chose the cluster just before, and for their retries.
	Linger time.Duration
	// RequireNamespaces turns Envoys away whose certificate names no namespace. It
	// is for a Server that is served with TLS, and asks for certificates.
	RequireNamespaces bool
}

// leastConnectionAge is the least of Settings.MaxConnectionAge.
const leastConnectionAge = time.Second

// DefaultSettings returns the settings of an interceptor that is given none.
func DefaultSettings() Settings {
	return Settings{
		KeepaliveTime:        30 * time.Second,
		KeepaliveTimeout:     5 * time.Second,
		KeepaliveMinTime:     5 * time.Second,
		MaxConnectionAge:     30 * time.Minute,
		MaxConcurrentStreams: 1000,
		Linger:               5 * time.Second,
	}
}

// Validate returns an error for the first setting that is out of range.
func (s *Settings) Validate() error {
	for _, d := range []struct {
		name     string
		value    time.Duration
		least    time.Duration
		expected string
	}{
		{"KeepaliveTime", s.KeepaliveTime, 1, "more than 0s"}, {"KeepaliveTimeout", s.KeepaliveTimeout, 1, "more than 0s"},
		{"KeepaliveMinTime", s.KeepaliveMinTime, 0, "0s or more"}, {"Linger", s.Linger, 0, "0s or more"},
	} {
		if d.value < d.least {
			return fmt.Errorf("xDS setting %s is %v; expected %s", d.name, d.value, d.expected)
		}
	}
	if s.MaxConnectionAge != 0 && s.MaxConnectionAge < leastConnectionAge {
		return fmt.Errorf("xDS setting MaxConnectionAge is %v; expected %v or more, or 0s for connections of any age", s.MaxConnectionAge, leastConnectionAge)
	}
	if s.MaxConcurrentStreams == 0 {
		return errors.New("xDS setting MaxConcurrentStreams is 0; expected 1 or more")
	}
	return nil
}

// ReadEnvironment reads the environment variables that users of Kedify's chart set;
// lookup is os.LookupEnv. A variable that is empty counts as not set. If a value is
// invalid, that setting stays as it was; the error lists all invalid values.
func (s *Settings) ReadEnvironment(lookup func(string) (string, bool)) error {
	var wrong []error
	for _, v := range []struct {
		name  string
		into  *time.Duration
		least time.Duration
	}{
		{"KEDIFY_XDS_KEEPALIVE_TIME", &s.KeepaliveTime, 1},
		{"KEDIFY_XDS_KEEPALIVE_TIMEOUT", &s.KeepaliveTimeout, 1},
		{"KEDIFY_XDS_KEEPALIVE_ENFORCEMENT_POLICY_MIN_TIME", &s.KeepaliveMinTime, 0},
	} {
		text, _ := lookup(v.name)
		if text == "" {
			continue
		}
		duration, err := time.ParseDuration(text)
		if err != nil || duration < v.least {
			wrong = append(wrong, fmt.Errorf("environment variable %s is %q; expected a duration such as 5s or 1m", v.name, text))
			continue
		}
		*v.into = duration
	}
	const maxStreams = "KEDIFY_XDS_MAX_CONCURRENT_STREAMS"
	if text, _ := lookup(maxStreams); text != "" {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil || n == 0 {
			wrong = append(wrong, fmt.Errorf("environment variable %s is %q; expected a number from 1 to %d", maxStreams, text, uint32(math.MaxUint32)))
		} else {
			s.MaxConcurrentStreams = uint32(n)
		}
	}
	return errors.Join(wrong...)
}
