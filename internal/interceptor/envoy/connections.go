package envoy

import (
	"math"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	// keepAliveProbes is after how many unanswered probes a peer counts as gone.
	keepAliveProbes = 3
	// maxKeepAlive is the longest interval that Linux takes, in seconds.
	maxKeepAlive = 32767
	// maxHeaderKB is the highest limit for a header that Envoy accepts, in KiB.
	maxHeaderKB = 8192
)

// whole returns a duration, MaxTimeout at most, rounded up to milliseconds, in which Envoy
// counts: only 0 becomes 0, which has a meaning of its own.
func whole(d time.Duration) *durationpb.Duration {
	return durationpb.New(roundedUp(min(d, MaxTimeout), time.Millisecond) * time.Millisecond)
}

func roundedUp[T time.Duration | int](value, unit T) T {
	if value%unit > 0 {
		return value/unit + 1
	}
	return value / unit
}

// keepAliveSeconds returns the interval of probes.
func (c *Connections) keepAliveSeconds() uint32 {
	return uint32(min(roundedUp(c.KeepAlive, time.Second), maxKeepAlive))
}

func (c *Connections) tcpKeepAlive() *corev3.TcpKeepalive {
	return &corev3.TcpKeepalive{
		KeepaliveProbes:   number(keepAliveProbes),
		KeepaliveTime:     number(c.keepAliveSeconds()),
		KeepaliveInterval: number(c.keepAliveSeconds()),
	}
}

// userTimeout has the kernel close a connection whose peer accepts none of the data
// sent to it for d; 0 sets no limit. This is Linux's TCP_USER_TIMEOUT, for which Envoy
// has no field.
func userTimeout(d time.Duration) []*corev3.SocketOption {
	if d == 0 {
		return nil
	}
	return []*corev3.SocketOption{{
		Description: "TCP_USER_TIMEOUT", Level: 6, Name: 18,
		Value: &corev3.SocketOption_IntValue{IntValue: min(int64(roundedUp(d, time.Millisecond)), math.MaxInt32)},
		State: corev3.SocketOption_STATE_PREBIND,
	}}
}

func (c *Connections) pings() *corev3.KeepaliveSettings {
	return &corev3.KeepaliveSettings{Interval: seconds(int64(c.keepAliveSeconds())), Timeout: seconds(15)}
}

// headerKB bounds the header of a message, in KiB.
func (c *Connections) headerKB() uint32 {
	return uint32(min(roundedUp(c.MaxHeaderBytes, 1<<10), maxHeaderKB))
}

// headers bounds the number of lines in a header. So many lines hardly fit into its
// bytes; Envoy's own limit of 100 is far lower.
func (c *Connections) headers() uint32 { return max(1000, c.headerKB()*1000/64) }

func (c *Connections) streams() uint32 { return uint32(min(c.MaxStreams, math.MaxInt32)) }
