package server_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/loadreport"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/externalscaler"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/figures"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/server"
)

const interceptor = "10.0.0.1:9090"

// scaler is a Server whose clock, objects and interceptors are those of a test, with a
// client of it.
type scaler struct {
	t *testing.T
	externalscaler.ExternalScalerClient
	figures *figures.Figures
	stop    func()

	mu       sync.Mutex
	now      time.Time
	starting error
	objects  map[client.ObjectKey]*httpv1alpha1.HTTPScaledObject
}

func newScaler(t *testing.T) *scaler {
	s := &scaler{t: t, now: time.Now(), objects: make(map[client.ObjectKey]*httpv1alpha1.HTTPScaledObject)}
	s.figures = figures.New(func() time.Time {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.now
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- server.New(reader{scaler: s}, s.figures, s.ready).Serve(ctx, l) }()
	s.stop = sync.OnceFunc(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	connection, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = connection.Close()
		s.stop()
	})
	s.ExternalScalerClient = externalscaler.NewExternalScalerClient(connection)
	return s
}

func (s *scaler) ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.starting
}

func (s *scaler) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// reader is a client.Reader of the test's objects.
type reader struct {
	client.Reader
	*scaler
}

func (r reader) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	object := r.objects[key]
	if object == nil {
		return apierrors.NewNotFound(httpv1alpha1.HTTPScaledObjects.GroupResource(), key.Name)
	}
	object.DeepCopyInto(into.(*httpv1alpha1.HTTPScaledObject))
	return nil
}

// object puts an HTTPScaledObject in namespace demo.
func (s *scaler) object(name string, metric httpv1alpha1.ScalingMetric, annotations map[string]string) {
	s.set(func() {
		s.objects[client.ObjectKey{Namespace: "demo", Name: name}] = &httpv1alpha1.HTTPScaledObject{
			ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, Annotations: annotations},
			Spec:       httpv1alpha1.HTTPScaledObjectSpec{ScalingMetric: &metric},
		}
	})
}

// reports makes the interceptor report objects of the namespace demo, after these seconds.
func (s *scaler) reports(seconds int, objects ...loadreport.Object) {
	s.set(func() { s.now = s.now.Add(time.Duration(seconds) * time.Second) })
	for i := range objects {
		objects[i].Namespace = "demo"
	}
	s.figures.Apply(interceptor, loadreport.Message{Sources: []loadreport.Source{{ID: "1", Objects: objects}}})
}

// listens makes the interceptor report for 20 s that it has no requests.
func (s *scaler) listens() {
	s.figures.SetExpected([]string{interceptor}, nil)
	for range 21 {
		s.reports(1)
	}
}

func ref(name string, metadata map[string]string) *externalscaler.ScaledObjectRef {
	return &externalscaler.ScaledObjectRef{Namespace: "demo", Name: name, ScalerMetadata: metadata}
}

func rate() httpv1alpha1.ScalingMetric {
	target, window := 5, "10s"
	return httpv1alpha1.ScalingMetric{RequestRate: &httpv1alpha1.RequestRateMetric{TargetValue: &target, Window: &window}}
}

func concurrency() httpv1alpha1.ScalingMetric {
	target := 7
	return httpv1alpha1.ScalingMetric{Concurrency: &httpv1alpha1.ConcurrencyMetric{TargetValue: &target}}
}

// fails checks an error's code and words.
func fails(t *testing.T, err error, code codes.Code, says ...string) {
	t.Helper()
	if status.Code(err) != code {
		t.Fatalf("%v; want code %v", err, code)
	}
	for _, part := range says {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("no %q in: %v", part, err)
		}
	}
}

// KEDA learns the metric of a trigger from a scaler that knows no figure yet, and of an
// object whose traffic is not counted.
func TestMetricSpecNeedsNoFigures(t *testing.T) {
	s := newScaler(t)
	s.starting = errors.New("it starts")
	s.object("web", rate(), map[string]string{server.NotWired: ""})
	for name, tt := range map[string]struct {
		ref    *externalscaler.ScaledObjectRef
		metric string
		target float64
		whole  int64
	}{
		"of the object":     {ref("web", nil), "http-demo-web-requestrate", 5, 5},
		"that is named":     {ref("scaled", map[string]string{"httpScaledObject": "web"}), "http-demo-web-requestrate", 5, 5},
		"of the trigger":    {ref("web", map[string]string{"scalingMetric": "concurrency", "targetValue": "2.5"}), "http-demo-web-concurrency", 2.5, 3},
		"beside KEDA's own": {ref("web", map[string]string{"scalerAddress": "x:9090", "targetValue": "6"}), "http-demo-web-requestrate", 6, 6},
	} {
		t.Run(name, func(t *testing.T) {
			answer, err := s.GetMetricSpec(t.Context(), tt.ref)
			if err != nil || len(answer.GetMetricSpecs()) != 1 {
				t.Fatalf("%v, %v; want one metric", answer, err)
			}
			got := answer.GetMetricSpecs()[0]
			if got.GetMetricName() != tt.metric || got.GetTargetSizeFloat() != tt.target || got.GetTargetSize() != tt.whole {
				t.Errorf("%v; want %s with target %v, %d", got, tt.metric, tt.target, tt.whole)
			}
		})
	}
}

// A trigger that nothing can be scaled by gets an error that says what to change, whatever
// KEDA asks.
func TestBadTriggers(t *testing.T) {
	s := newScaler(t)
	s.listens()
	s.object("web", rate(), nil)
	two := rate()
	two.Concurrency = concurrency().Concurrency
	s.object("two", two, nil)
	s.object("none", httpv1alpha1.ScalingMetric{}, nil)
	for name, tt := range map[string]struct {
		ref  *externalscaler.ScaledObjectRef
		code codes.Code
		says []string
	}{
		"no object":       {ref("other", nil), codes.NotFound, []string{"HTTPScaledObject demo/other does not exist: create it", "httpScaledObject"}},
		"another's name":  {ref("web", map[string]string{"httpScaledObject": "other"}), codes.NotFound, []string{"demo/other"}},
		"no target":       {ref("none", nil), codes.InvalidArgument, []string{"ScaledObject demo/none", "no target", "spec.scalingMetric"}},
		"two metrics":     {ref("two", nil), codes.InvalidArgument, []string{"two metrics", "remove one"}},
		"a misspelling":   {ref("web", map[string]string{"targetvalue": "3"}), codes.InvalidArgument, []string{`did you mean "targetValue"?`}},
		"no ScaledObject": {&externalscaler.ScaledObjectRef{}, codes.InvalidArgument, []string{"names no ScaledObject"}},
		"a long name":     {ref("web", map[string]string{"httpScaledObject": strings.Repeat("x", 254)}), codes.InvalidArgument, []string{"more than the 253 bytes"}},
		"nothing":         {nil, codes.InvalidArgument, []string{"names no ScaledObject"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.GetMetricSpec(t.Context(), tt.ref)
			fails(t, err, tt.code, tt.says...)
			_, err = s.GetMetrics(t.Context(), &externalscaler.GetMetricsRequest{ScaledObjectRef: tt.ref, MetricName: "m"})
			fails(t, err, tt.code, tt.says...)
			_, err = s.IsActive(t.Context(), tt.ref)
			fails(t, err, tt.code, tt.says...)
		})
	}
}

// The value of a metric is of the requests in the window, or of those under way.
func TestMetrics(t *testing.T) {
	s := newScaler(t)
	s.object("web", rate(), nil)
	s.object("calls", concurrency(), nil)
	s.listens()
	for i := range 10 {
		s.reports(1, loadreport.Object{Name: "web", Requests: int64(4 * (i + 1))}, loadreport.Object{Name: "calls", Requests: 3, Active: 3})
	}
	value := func(name, metric string) float64 {
		t.Helper()
		answer, err := s.GetMetrics(t.Context(), &externalscaler.GetMetricsRequest{ScaledObjectRef: ref(name, nil), MetricName: metric})
		if err != nil || len(answer.GetMetricValues()) != 1 || answer.GetMetricValues()[0].GetMetricName() != metric {
			t.Fatalf("%s: %v, %v; want one value", metric, answer, err)
		}
		got := answer.GetMetricValues()[0]
		if float := got.GetMetricValueFloat(); float64(got.GetMetricValue()) < float || float64(got.GetMetricValue()) >= float+1 {
			t.Errorf("%s: %d is not %v rounded up", metric, got.GetMetricValue(), float)
		}
		return got.GetMetricValueFloat()
	}
	if got := value("web", "http-demo-web-requestrate"); got < 3.8 || got > 4.2 {
		t.Errorf("%v requests/s, want 4", got)
	}
	if got := value("calls", "http-demo-calls-concurrency"); got != 3 {
		t.Errorf("%v requests under way, want 3", got)
	}
	_, err := s.GetMetrics(t.Context(), &externalscaler.GetMetricsRequest{ScaledObjectRef: ref("web", nil), MetricName: "http-demo-web-concurrency"})
	fails(t, err, codes.FailedPrecondition)
	want := `there is no metric "http-demo-web-concurrency": that of HTTPScaledObject demo/web is "http-demo-web-requestrate" now`
	if got := status.Convert(err).Message(); got != want {
		t.Errorf("%s; want %s", got, want)
	}
}

// What is not known is an error and never 0 or false. Known activity is true whatever is
// missing.
func TestWhatIsMissing(t *testing.T) {
	silent := func(s *scaler) { s.set(func() { s.now = s.now.Add(2 * time.Minute) }) }
	for name, tt := range map[string]struct {
		missing func(*scaler)
		code    codes.Code
		says    []string
	}{
		"nothing":        {func(*scaler) {}, codes.OK, nil},
		"time to listen": {func(s *scaler) { s.set(func() { s.starting = errors.New("it starts: try again") }) }, codes.Unavailable, []string{"try again"}},
		"an interceptor": {silent, codes.Unavailable, []string{"interceptor " + interceptor, "has not reported"}},
		"traffic at proxies": {func(s *scaler) {
			for _, name := range []string{"idle", "busy"} {
				s.object(name, concurrency(), map[string]string{server.NotWired: "no Ingress"})
			}
		}, codes.FailedPrecondition, []string{"http.kedify.io/not-wired", "no Ingress", "pass no proxy yet"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScaler(t)
			s.object("idle", concurrency(), nil)
			s.object("busy", concurrency(), nil)
			s.listens()
			s.reports(1, loadreport.Object{Name: "busy", Requests: 1, Active: 1})
			tt.missing(s)
			for _, object := range []string{"idle", "busy"} {
				answer, err := s.GetMetrics(t.Context(), &externalscaler.GetMetricsRequest{ScaledObjectRef: ref(object, nil), MetricName: "http-demo-" + object + "-concurrency"})
				if fails(t, err, tt.code, tt.says...); err != nil && answer != nil {
					t.Errorf("%v beside an error", answer)
				}
			}
			idle, err := s.IsActive(t.Context(), ref("idle", nil))
			if fails(t, err, tt.code, tt.says...); idle.GetResult() {
				t.Error("an object without requests is active")
			}
			for _, of := range []*externalscaler.ScaledObjectRef{ref("busy", nil), ref("busy", map[string]string{"targetvalue": "wrong"})} {
				if busy, err := s.IsActive(t.Context(), of); err != nil || !busy.GetResult() {
					t.Errorf("an object with a request under way: %v, %v; want it active", busy, err)
				}
			}
		})
	}
}

// A trigger that is wrong for a while, or an object that is gone, does not shorten the time
// that is remembered.
func TestWrongTriggersForgetNothing(t *testing.T) {
	s := newScaler(t)
	long, window, granularity := rate(), "1h", "4s"
	long.RequestRate.Window, long.RequestRate.Granularity = &window, &granularity
	s.object("web", long, nil)
	s.listens()
	active := func(of *externalscaler.ScaledObjectRef) {
		t.Helper()
		if answer, err := s.IsActive(t.Context(), of); err != nil || !answer.GetResult() {
			t.Errorf("%v, %v; want it active: it had a request in the last hour", answer, err)
		}
	}
	once := loadreport.Object{Name: "web", Requests: 1}
	s.reports(1, once)
	active(ref("web", nil))
	for range 120 {
		s.reports(1, once)
	}
	active(ref("web", map[string]string{"targetvalue": "wrong"}))
	active(ref("web", nil))
}

// Held requests push true, at once and again as long as they are held. Nothing else is
// pushed, of an object that does not exist or is not held neither.
func TestPushes(t *testing.T) {
	s := newScaler(t)
	s.object("web", concurrency(), nil)
	s.listens()
	if _, err := s.opened(ref("web", nil)).Recv(); !errors.Is(err, io.EOF) {
		t.Fatalf("%v; want the end of the first stream", err)
	}
	for range 3 {
		stream := s.opened(ref("web", nil))
		s.reports(1, loadreport.Object{Name: "web", Requests: 1, Active: 1, Held: 1})
		for range 2 {
			if answer, err := stream.Recv(); err != nil || !answer.GetResult() {
				t.Fatalf("%v, %v; want true", answer, err)
			}
		}
		s.reports(1, loadreport.Object{Name: "web", Requests: 1, Active: 1})
	}
	quiet := []externalscaler.ExternalScaler_StreamIsActiveClient{s.opened(ref("web", nil))}
	for range 2 {
		quiet = append(quiet, s.opened(ref("other", nil)))
	}
	s.reports(1, loadreport.Object{Name: "web", Requests: 2, Active: 2})
	s.stop()
	for i, stream := range quiet {
		if answer, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("stream %d: %v, %v; want its end with OK", i+1, answer, err)
		}
	}
}

// opened opens a stream that the scaler knows of.
func (s *scaler) opened(of *externalscaler.ScaledObjectRef) externalscaler.ExternalScaler_StreamIsActiveClient {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	s.t.Cleanup(cancel)
	stream, err := s.StreamIsActive(ctx, of)
	if err != nil {
		s.t.Fatal(err)
	}
	// The scaler takes the requests of a connection in their order.
	_, err = s.GetMetricSpec(s.t.Context(), ref("no-such-object", nil))
	fails(s.t, err, codes.NotFound)
	return stream
}

// The first stream of each trigger ends with OK, after telling of a request that is held.
func TestFirstStreamEnds(t *testing.T) {
	s := newScaler(t)
	s.listens()
	s.reports(1, loadreport.Object{Name: "web", Requests: 1, Active: 1, Held: 1})
	for _, of := range []*externalscaler.ScaledObjectRef{
		ref("web", nil), ref("other", map[string]string{"httpScaledObject": "web"}), ref("quiet", nil),
	} {
		stream := s.opened(of)
		if of.GetName() != "quiet" {
			if answer, err := stream.Recv(); err != nil || !answer.GetResult() {
				t.Errorf("%v: %v, %v; want true", of, answer, err)
			}
		}
		if answer, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("%v: %v, %v; want its end with OK", of, answer, err)
		}
		if of.GetName() == "quiet" {
			continue
		}
		stream = s.opened(of)
		for range 2 {
			if answer, err := stream.Recv(); err != nil || !answer.GetResult() {
				t.Errorf("the next stream of %v: %v, %v; want true", of, answer, err)
			}
		}
	}
}

// KEDA does without what is not implemented if the error says so.
func TestNoStreamOfMetricSpecs(t *testing.T) {
	stream, err := newScaler(t).StreamMetricSpec(t.Context(), ref("web", nil))
	if err == nil {
		_, err = stream.Recv()
	}
	fails(t, err, codes.Unimplemented)
}
