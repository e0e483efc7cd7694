// Package server answers KEDA's operator as an external scaler: whether a workload is to
// run, by which metric it is scaled, and what that metric is now.
package server

import (
	"context"
	"math"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/externalscaler"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/figures"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/trigger"
)

// NotWired is the annotation of an HTTPScaledObject whose traffic passes no proxy yet. Its
// value says why, to people.
const NotWired = "http.kedify.io/not-wired"

// Server is the external scaler, and a prometheus.Collector of what it is asked.
type Server struct {
	externalscaler.UnimplementedExternalScalerServer
	metrics
	objects client.Reader
	figures *figures.Figures
	ready   func() error
	streams *streams
}

// New returns a Server of HTTPScaledObjects and their figures. ready tells what figures wait
// for: until it returns nil, they are not known.
func New(objects client.Reader, f *figures.Figures, ready func() error) *Server {
	return &Server{metrics: newMetrics(), objects: objects, figures: f, ready: ready, streams: newStreams()}
}

// IsActive tells whether requests are held, under way or in the window. If some are, the
// answer is true whatever is missing; else all has to be known.
func (s *Server) IsActive(ctx context.Context, ref *externalscaler.ScaledObjectRef) (*externalscaler.IsActiveResponse, error) {
	asked, err := s.read(ctx, ref)
	if s.figures.Active(asked.key, asked.Window) {
		return &externalscaler.IsActiveResponse{Result: true}, nil
	}
	if err == nil {
		err = s.known(asked)
	}
	if err == nil {
		err = unavailable(s.figures.Missing(asked.key.Namespace, asked.Window.Length))
	}
	if err != nil {
		return nil, err
	}
	return &externalscaler.IsActiveResponse{}, nil
}

// GetMetricSpec returns the one metric of a trigger, with its target. It knows that without
// figures: KEDA makes no HorizontalPodAutoscaler without it.
func (s *Server) GetMetricSpec(ctx context.Context, ref *externalscaler.ScaledObjectRef) (*externalscaler.GetMetricSpecResponse, error) {
	asked, err := s.read(ctx, ref)
	if err != nil {
		return nil, err
	}
	return &externalscaler.GetMetricSpecResponse{MetricSpecs: []*externalscaler.MetricSpec{
		{MetricName: asked.MetricName(asked.key), TargetSize: whole(asked.Target), TargetSizeFloat: asked.Target},
	}}, nil
}

// GetMetrics returns the metric's value.
func (s *Server) GetMetrics(ctx context.Context, request *externalscaler.GetMetricsRequest) (*externalscaler.GetMetricsResponse, error) {
	ref := request.GetScaledObjectRef()
	asked, err := s.read(ctx, ref)
	if err != nil {
		return nil, err
	}
	name := asked.MetricName(asked.key)
	if request.GetMetricName() != name {
		return nil, status.Errorf(codes.FailedPrecondition, "there is no metric %.100q: that of HTTPScaledObject %s is %q now",
			request.GetMetricName(), asked.key, name)
	}
	if err := s.known(asked); err != nil {
		return nil, err
	}
	value, err := s.value(asked)
	if err != nil {
		return nil, unavailable(err)
	}
	return &externalscaler.GetMetricsResponse{MetricValues: []*externalscaler.MetricValue{
		{MetricName: name, MetricValue: whole(value), MetricValueFloat: value},
	}}, nil
}

func (s *Server) value(asked asked) (float64, error) {
	if asked.Metric == trigger.Concurrency {
		requests, err := s.figures.Concurrency(asked.key)
		return float64(requests), err
	}
	return s.figures.Rate(asked.key, asked.Window)
}

// StreamIsActive sends true at once when a request is held, and each second while one is.
// It sends nothing else, and has no error for what is missing: KEDA asks for that. The first
// stream of a trigger ends with OK, as all do when the scaler stops. KEDA comes back after 2 s
// then; after any other end it waits twice as long as the last time, up to 60 s, and only an
// OK takes that back.
func (s *Server) StreamIsActive(ref *externalscaler.ScaledObjectRef, stream externalscaler.ExternalScaler_StreamIsActiveServer) error {
	key, err := objectOf(ref)
	if err != nil {
		return err
	}
	first := s.streams.first(ref, key)
	begins, cancel := s.figures.Subscribe(key)
	defer cancel()
	for {
		held, again := begins, (<-chan time.Time)(nil)
		if s.figures.Held(key) {
			if err := stream.Send(&externalscaler.IsActiveResponse{Result: true}); err != nil {
				return err
			}
			held, again = nil, time.After(time.Second)
		}
		if first {
			return nil
		}
		select {
		case <-held:
		case <-again:
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-s.streams.ended:
			return nil
		}
	}
}

// asked is what a request of KEDA is about.
type asked struct {
	trigger.Trigger
	key    figures.Key
	object *httpv1alpha1.HTTPScaledObject
}

// read reads a trigger and its object. Beside an error, the key is what is known of it, and
// the window is zero.
func (s *Server) read(ctx context.Context, ref *externalscaler.ScaledObjectRef) (asked, error) {
	a := asked{object: new(httpv1alpha1.HTTPScaledObject)}
	var err error
	if a.key, err = objectOf(ref); err != nil {
		return a, err
	}
	switch err := s.objects.Get(ctx, a.key, a.object); {
	case apierrors.IsNotFound(err):
		return a, status.Errorf(codes.NotFound, "HTTPScaledObject %s does not exist: create it, or name the one that does by httpScaledObject in the trigger's metadata", a.key)
	case err != nil:
		return a, unavailable(err)
	}
	parsed, err := trigger.Parse(ref.GetScalerMetadata(), a.object)
	if err != nil {
		return a, status.Errorf(codes.InvalidArgument, "ScaledObject %s/%s: %v", ref.GetNamespace(), ref.GetName(), err)
	}
	a.Trigger = parsed
	return a, nil
}

// known returns an error if there are no figures of an object's traffic.
func (s *Server) known(asked asked) error {
	if why, is := asked.object.Annotations[NotWired]; is {
		return status.Errorf(codes.FailedPrecondition, "HTTPScaledObject %s has the annotation %s (%q): its requests pass no proxy yet, and are not counted; send them to an interceptor or a kedify-proxy",
			asked.key, NotWired, why)
	}
	return unavailable(s.ready())
}

func unavailable(err error) error {
	if err == nil {
		return nil
	}
	return status.Error(codes.Unavailable, err.Error())
}

// maxName is the longest name of an object in Kubernetes, in bytes. Names are kept as long as
// there are streams.
const maxName = 253

// objectOf returns the HTTPScaledObject that a trigger names.
func objectOf(ref *externalscaler.ScaledObjectRef) (figures.Key, error) {
	if ref.GetNamespace() == "" || ref.GetName() == "" {
		return figures.Key{}, status.Error(codes.InvalidArgument, "the request names no ScaledObject: expected its name and namespace, as KEDA sends them")
	}
	key := trigger.Object(ref.GetNamespace(), ref.GetName(), ref.GetScalerMetadata())
	if max(len(ref.GetName()), len(key.Namespace), len(key.Name)) > maxName {
		return figures.Key{}, status.Errorf(codes.InvalidArgument, "a name has more than the %d bytes that Kubernetes allows", maxName)
	}
	return key, nil
}

// whole rounds up, so that no part of a request becomes none.
func whole(value float64) int64 { return int64(math.Ceil(value)) }

// streams are the streams of activity.
type streams struct {
	ended chan struct{}
	end   func()

	mu   sync.Mutex
	seen map[pushed]bool
}

// pushed is a trigger of a ScaledObject.
type pushed struct{ scaledObject, object figures.Key }

// mostSeen bounds the triggers that are known to have had a stream.
const mostSeen = 100_000

func newStreams() *streams {
	s := &streams{ended: make(chan struct{}), seen: make(map[pushed]bool)}
	s.end = sync.OnceFunc(func() { close(s.ended) })
	return s
}

// first tells whether a trigger has had no stream before.
func (s *streams) first(ref *externalscaler.ScaledObjectRef, object figures.Key) bool {
	p := pushed{figures.Key{Namespace: ref.GetNamespace(), Name: ref.GetName()}, object}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[p] {
		return false
	}
	if len(s.seen) == mostSeen {
		clear(s.seen)
	}
	s.seen[p] = true
	return true
}
