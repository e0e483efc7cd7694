package envoy

import (
	"math"
	"net/http"
	"net/netip"
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

func TestOptions(t *testing.T) {
	tests := map[string]struct {
		change func(*Options)
		want   string // in the error
	}{
		"none":                 {func(*Options) {}, ""},
		"negative header time": {func(o *Options) { o.ResponseHeader = -1 }, "ResponseHeader is -1ns"},
		"negative connect":     {func(o *Options) { o.ConnectTimeout = -time.Second }, "ConnectTimeout is -1000000000; expected more than 0"},
		"negative idle":        {func(o *Options) { o.IdleConnTimeout = -time.Second }, "IdleConnTimeout is -1s"},
		"negative user time":   {func(o *Options) { o.UserTimeout = -time.Second }, "UserTimeout is -1s"},
		"no connections said":  {func(o *Options) { o.Connections = Connections{} }, "ConnectTimeout is 0; expected more than 0"},
		"no probes":            {func(o *Options) { o.KeepAlive = 0 }, "KeepAlive is 0"},
		"no header":            {func(o *Options) { o.MaxHeaderBytes = 0 }, "MaxHeaderBytes is 0"},
		"no time for a header": {func(o *Options) { o.ReadHeader = 0 }, "ReadHeader is 0"},
		"not idle":             {func(o *Options) { o.Idle = 0 }, "Idle is 0"},
		"no streams":           {func(o *Options) { o.MaxStreams = 0 }, "MaxStreams is 0"},
		"one port for both":    {func(o *Options) { o.HTTPPort, o.TLSPort = 80, 80 }, "both 80"},
		"the other's default":  {func(o *Options) { o.HTTPPort = 8443 }, "both 8443"},
		"a zone":               {func(o *Options) { o.Address = netip.MustParseAddr("fe80::1%eth0") }, "fe80::1%eth0; expected an address without a zone"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := Options{Connections: asEmbedded()}
			tt.change(&o)
			_, err := NewTranslator(o)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
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
