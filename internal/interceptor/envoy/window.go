package envoy

import (
	"math"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// What Envoy buffers for one request, in bytes. A peer that stops reading fills these
// buffers: 1,000 answers that no client reads take at most 400 MB. Smaller ones make a
// large download slower.
const (
	// streamWindow is the flow-control window of a client's HTTP/2 stream: what Envoy
	// buffers of its request, and apart from that of its answer.
	streamWindow = 96 << 10
	// upstreamStreamWindow is the same of a stream to an application.
	upstreamStreamWindow = 256 << 10
	// connectionBuffer is what Envoy buffers for a connection, apart from its streams. It
	// stops reading from a client while so much waits to be sent to it.
	connectionBuffer = 256 << 10
)

// upstreamStreams bounds the streams of one HTTP/2 connection to an application. RFC 9113
// recommends that a server allow at least so many, and Envoy opens them before it knows
// the server's limit. Beyond it, Envoy opens another connection.
const upstreamStreams = 100

// flowControl sets the windows of HTTP/2. That of a connection has room for all of its
// streams, so that streams that are not read do not stop the others: twice, as Envoy
// grants what it has consumed only when this is half of the window.
func flowControl(h *corev3.Http2ProtocolOptions, streams, window uint32) *corev3.Http2ProtocolOptions {
	h.MaxConcurrentStreams = number(streams)
	h.InitialStreamWindowSize = number(window)
	h.InitialConnectionWindowSize = number(uint32(min(2*uint64(streams)*uint64(window), math.MaxInt32)))
	return h
}
