package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/freeport"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/proxy"
	"github.com/kedify/argo-rollouts-plugin/internal/loadreport"
)

// A scaler reads the stream from before the first table until the interceptor ends, and is
// told of the last request.
func TestScalersAreToldUntilTheEnd(t *testing.T) {
	o := defaultSettings(t)
	freeport.Set(t, &o.ProxyPort, &o.TLSPort, &o.AdminPort, &o.MetricsPort, &o.FallbackPort, &o.XDSPort)
	log := slog.New(slog.DiscardHandler)
	p := proxy.New(o.Proxy, log)
	x, err := newXDS(o, p.Loads(), log, nil)
	if err != nil {
		t.Fatal(err)
	}
	ls, err := listen(t.Context(), o, p, p.Admin(noProblems, alive), nil, x, prometheus.NewRegistry(), log)
	if err != nil {
		t.Fatal(err)
	}
	ls.serve()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprint("http://127.0.0.1:", o.AdminPort, loadreport.Path), nil)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	decoder := json.NewDecoder(stream.Body)
	var last loadreport.Object
	read := func() error {
		var m loadreport.Message
		if err := decoder.Decode(&m); err != nil {
			return err
		}
		for _, source := range m.Sources {
			for _, object := range source.Objects {
				last = object
			}
		}
		return nil
	}
	if err := read(); err != nil {
		t.Fatal(err)
	}

	finish := make(chan struct{})
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		<-finish
		fmt.Fprint(w, "finished")
	}))
	t.Cleanup(app.Close)
	s := newStackOf(t, o, p, x)
	s.object("demo")
	s.endpoint("demo", app.Listener.Addr().String())
	answer := make(chan string, 1)
	go func() {
		_, text, err := ask(newClient(t, &http.Transport{}), "http", o.ProxyPort, http.MethodGet, nil)
		answer <- fmt.Sprint(text, " ", err)
	}()
	underWay := loadreport.Object{Namespace: "demo", Name: "app", Requests: 1, Active: 1}
	for last != underWay {
		if err := read(); err != nil {
			t.Fatalf("told %+v, then %v; want %+v", last, err, underWay)
		}
	}
	p.Drain()
	over := make(chan error, 1)
	go func() { over <- ls.shutdown(ctx) }()
	close(finish)
	if got := <-answer; got != "finished <nil>" {
		t.Errorf("the request under way: %s", got)
	}
	for err = read(); err == nil; err = read() {
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the stream ends with %v", err)
	}
	if want := (loadreport.Object{Namespace: "demo", Name: "app", Requests: 1}); last != want {
		t.Errorf("told at last %+v, want %+v", last, want)
	}
	if err := <-over; err != nil {
		t.Error(err)
	}
}
