package streams

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/loads"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/figures"
)

// What an interceptor counts is what the figures say, and a held request is told of at once.
func TestFiguresOfAnInterceptor(t *testing.T) {
	app := figures.Key{Namespace: "shop", Name: "app"}
	ledger := loads.New(func(types.NamespacedName) bool { return true })
	server := httptest.NewServer(ledger)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	address := server.Listener.Addr().String()
	f := figures.New(time.Now)
	f.SetExpected([]string{address}, map[string][]string{app.Namespace: {"10.0.0.1"}})
	ctx, cancel := context.WithCancel(context.Background())
	s := New(ctx, f, slog.New(slog.DiscardHandler))
	t.Cleanup(func() { cancel(); s.Set(nil) })
	held, unsubscribe := f.Subscribe(app)
	defer unsubscribe()
	s.Set([]string{address})
	eventually(t, "the first message", s.Tried)

	own, envoy := ledger.Own().Counters(app), ledger.Stream("10.0.0.1", "")
	envoy.Report(map[types.NamespacedName]loads.Figures{app: {Requests: 600, Active: 3}})
	own.Count(1)
	own.Begin()
	own.Hold()
	select {
	case <-held:
	case <-time.After(patience):
		t.Fatal("not told of the held request")
	}
	if !f.Held(app) || !f.Active(app, figures.DefaultWindow) {
		t.Error("want a request held, and the object active")
	}
	eventually(t, "both under way", func() bool {
		envoy.Report(map[types.NamespacedName]loads.Figures{app: {Active: 3}})
		active, err := f.Concurrency(app)
		return err == nil && active == 4
	})
	if rate, err := f.Rate(app, figures.DefaultWindow); err != nil || rate <= 0 {
		t.Errorf("the rate is %v (%v)", rate, err)
	}
	own.Release()
	own.End()
	envoy.End()
	envoy = ledger.Stream("10.0.0.1", "")
	envoy.Report(map[types.NamespacedName]loads.Figures{app: {Requests: 5, Active: 1}})
	eventually(t, "one under way", func() bool {
		envoy.Report(map[types.NamespacedName]loads.Figures{app: {Active: 1}})
		active, err := f.Concurrency(app)
		return err == nil && active == 1 && !f.Held(app)
	})
}
