package envoy

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/proxy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// asEmbedded are the Connections of an embedded proxy with default settings.
func asEmbedded() Connections { return connectionsOf(proxy.DefaultSettings()) }

func connectionsOf(s proxy.Settings) Connections {
	return Connections{
		ConnectTimeout: s.ConnectTimeout, IdleConnTimeout: s.IdleConnTimeout, KeepAlive: s.KeepAlive, UserTimeout: s.UserTimeout,
		MaxHeaderBytes: s.MaxHeaderBytes, ReadHeader: s.ReadHeader, Idle: s.Idle, SendTimeout: s.SendTimeout, MaxStreams: s.MaxStreams,
	}
}

// Envoy serves with every setting that the embedded proxy accepts.
func TestExtremesServedByARealEnvoy(t *testing.T) {
	for name, c := range map[string]Connections{
		"least": {
			ConnectTimeout: time.Second, IdleConnTimeout: 1, KeepAlive: 1,
			MaxHeaderBytes: 300, ReadHeader: time.Second, Idle: 1, MaxStreams: 1,
		},
		"most": {
			ConnectTimeout: math.MaxInt64, IdleConnTimeout: 0, KeepAlive: math.MaxInt64, UserTimeout: math.MaxInt64,
			MaxHeaderBytes: math.MaxInt, ReadHeader: math.MaxInt64, Idle: math.MaxInt64, SendTimeout: math.MaxInt64, MaxStreams: math.MaxInt,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for service, protocol := range map[string]routes.Protocol{"app": routes.HTTP1, "h2c": routes.H2C} {
				w.service(service, protocol, serve(t, says(service)))
				w.object(service, service, "", nil)
			}
			tr := newTranslator(t, Options{TLS: true, Connections: c})
			for _, l := range tr.Listeners() {
				if err := l.ValidateAll(); err != nil {
					t.Error(err)
				}
			}
			address := startEnvoy(t, static(t, tr, w.table(), nil))
			for host, want := range map[string]string{"app": "app HTTP/1.1", "h2c": "h2c HTTP/2.0"} {
				if code, body := ask(t, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, address, host+".example.com", "/"); body != want {
					t.Errorf("answered %d %q, want %q", code, body, want)
				}
			}
		})
	}
}

// The largest header is the same through both proxies, give or take Go's 4 KiB.
func TestLargestHeaderByARealEnvoy(t *testing.T) {
	w := newWorld(t)
	w.service("app", routes.HTTP1, serve(t, says("app")))
	w.object("app", "app", "", nil)
	c := asEmbedded()
	c.MaxHeaderBytes = 100 << 10
	address := startEnvoy(t, static(t, newTranslator(t, Options{Connections: c}), w.table(), nil))
	for size, want := range map[int]int{90 << 10: http.StatusOK, 110 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		r, err := http.NewRequest(http.MethodGet, "http://"+address+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "app.example.com"
		r.Header.Set("X-Large", strings.Repeat("x", size))
		response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("a header of %d bytes is answered %d, want %d", size, response.StatusCode, want)
		}
	}
}

func TestRounding(t *testing.T) {
	for _, tt := range []struct {
		c                    Connections
		kb, headers, seconds uint32
	}{
		{asEmbedded(), 64, 1000, 30},
		{Connections{MaxHeaderBytes: 1, KeepAlive: 1}, 1, 1000, 1},
		{Connections{MaxHeaderBytes: 64<<10 + 1, KeepAlive: time.Second + 1}, 65, 1015, 2},
		{Connections{MaxHeaderBytes: 16 << 20, KeepAlive: 100 * time.Hour}, 8192, 128_000, 32767},
	} {
		if kb, headers, seconds := tt.c.headerKB(), tt.c.headers(), tt.c.keepAliveSeconds(); kb != tt.kb || headers != tt.headers || seconds != tt.seconds {
			t.Errorf("%+v is %d KiB, %d headers and %d s; want %d, %d, %d", tt.c, kb, headers, seconds, tt.kb, tt.headers, tt.seconds)
		}
	}
	for d, want := range map[time.Duration]time.Duration{
		0: 0, 1: time.Millisecond, time.Millisecond: time.Millisecond, time.Millisecond + 1: 2 * time.Millisecond,
	} {
		if got := whole(d).AsDuration(); got != want {
			t.Errorf("%v is %v, want %v", d, got, want)
		}
	}
}
