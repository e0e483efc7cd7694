package server

import (
	"context"
	"path"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// metrics counts what KEDA asks.
type metrics struct {
	requests *prometheus.CounterVec
	streams  prometheus.Gauge
}

func newMetrics() metrics {
	return metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "scaler_requests_total",
			Help: "Requests of KEDA that were answered, by method and gRPC code. Code Unavailable: a figure was not known.",
		}, []string{"method", "code"}),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "scaler_push_streams",
			Help: "Streams on which KEDA waits for an application to wake up. Each ScaledObject has one, at one of the scalers.",
		}),
	}
}

// Describe is part of prometheus.Collector.
func (m metrics) Describe(descs chan<- *prometheus.Desc) {
	m.requests.Describe(descs)
	m.streams.Describe(descs)
}

// Collect is part of prometheus.Collector.
func (m metrics) Collect(collected chan<- prometheus.Metric) {
	m.requests.Collect(collected)
	m.streams.Collect(collected)
}

func (m metrics) countRequest(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	answer, err := handler(ctx, request)
	m.requests.WithLabelValues(path.Base(info.FullMethod), status.Code(err).String()).Inc()
	return answer, err
}

func (m metrics) countStream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	m.streams.Inc()
	defer m.streams.Dec()
	err := handler(server, stream)
	m.requests.WithLabelValues(path.Base(info.FullMethod), status.Code(err).String()).Inc()
	return err
}
