package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pires/go-proxyproto"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/settings"
)

// says is an application that answers with its name and the body of the request.
func says(t *testing.T, name string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("%s reads a body: %v", name, err)
		}
		fmt.Fprint(w, name, string(body))
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// twoOfOneHost is a stack with two HTTPScaledObjects for one host: by the host alone, a
// request is for red's, which is older. The kedify-proxy serves namespace blue.
func twoOfOneHost(t *testing.T) *stack {
	s := newStack(t, nil)
	s.object("red")
	s.object("blue")
	s.endpoint("red", says(t, "red"))
	s.startEnvoy(envoy.BootstrapOptions{Namespaces: []string{"blue"}})
	s.connected()
	return s
}

// Envoy hands a request for a backend without endpoints to the interceptor, which holds
// it for the object that Envoy has chosen, whatever the host says.
func TestColdStartThroughKedifyProxy(t *testing.T) {
	const waiting = 20
	s := twoOfOneHost(t)
	client := newClient(t, &http.Transport{})
	answers := make(chan string, waiting)
	body := strings.Repeat("x", 1<<10)
	for range waiting {
		go func() {
			code, text, err := ask(client, "http", s.o.KedifyProxy.Port, http.MethodPost, strings.NewReader(body))
			answers <- fmt.Sprint(code, " ", text, " ", err)
		}()
	}
	s.envoy.Wait("all requests held", func() error {
		if held := s.metric("interceptor_requests_held", "blue"); held != waiting {
			return fmt.Errorf("%v are", held)
		}
		return nil
	})
	if len(answers) > 0 {
		t.Fatalf("answered without an endpoint: %s", <-answers)
	}
	s.endpoint("blue", says(t, "blue"))
	for range waiting {
		select {
		case got := <-answers:
			if want := "200 blue" + body + " <nil>"; got != want {
				t.Errorf("answered %d bytes, %.40q to %q, want %d", len(got), got, got[max(0, len(got)-40):], len(want))
			}
		case <-time.After(patience):
			t.Fatal("a request that was held is not answered")
		}
	}
	if got := s.metric("interceptor_cold_starts_total", "blue"); got != waiting {
		t.Errorf("%v cold starts counted, want %d", got, waiting)
	}
	// From now on Envoy sends requests to the application itself.
	s.envoy.Wait("a request that Envoy sends itself", func() error {
		before := s.metric("interceptor_requests_total", "blue")
		if code, text, err := ask(client, "http", s.o.KedifyProxy.Port, http.MethodGet, nil); err != nil || text != "blue" {
			t.Fatalf("answered %d %q, %v", code, text, err)
		}
		if s.metric("interceptor_requests_total", "blue") != before {
			return fmt.Errorf("the interceptor was asked")
		}
		return nil
	})
	if got := s.metric("interceptor_requests_total", "red"); got != 0 {
		t.Errorf("red got %v of blue's requests", got)
	}
}

// If a cold start lasts too long, the request goes to the failover Service, as it does
// without Envoy.
func TestColdStartFailoverThroughKedifyProxy(t *testing.T) {
	s := newStack(t, nil)
	s.object("red")
	s.service("blue", "away")
	s.object("blue", func(o *httpv1alpha1.HTTPScaledObject) {
		port, after := int32(80), int32(1)
		o.Spec.ColdStartTimeoutFailoverRef = &httpv1alpha1.ColdStartTimeoutFailoverRef{Service: "away", Port: &port, TimeoutSeconds: &after}
	})
	s.endpoint("red", says(t, "red"))
	s.endpointsOf("blue", "away", says(t, "away"))
	s.startEnvoy(envoy.BootstrapOptions{Namespaces: []string{"blue"}})
	s.connected()

	client := newClient(t, &http.Transport{})
	body := strings.Repeat("x", 1<<10)
	for range 2 {
		code, text, err := ask(client, "http", s.o.KedifyProxy.Port, http.MethodPost, strings.NewReader(body))
		if err != nil || code != http.StatusOK || text != "away"+body {
			t.Fatalf("answered %d %.40q, %v; want the Service for cold starts that last too long", code, text, err)
		}
	}
	if got := s.metric("interceptor_cold_starts_total", "blue"); got != 2 {
		t.Errorf("%v cold starts counted, want 2", got)
	}
	s.endpoint("blue", says(t, "blue"))
	s.answered(client, "http", s.o.KedifyProxy.Port, "blue")
}

// A namespace whose application does not start blocks no cold start of another namespace,
// whichever proxy the requests come through.
func TestRoomToWaitIsSharedWithKedifyProxies(t *testing.T) {
	const room, half = 10, 5
	s := newStack(t, func(o *settings.Settings) { o.Proxy.MaxHeld = room })
	s.object("red")
	s.object("blue")
	s.startEnvoy(envoy.BootstrapOptions{Namespaces: []string{"blue"}})
	s.connected()
	client := newClient(t, &http.Transport{})
	send := func(port uint16) <-chan string {
		answer := make(chan string, 1)
		go func() {
			code, text, err := ask(client, "http", port, http.MethodGet, nil)
			answer <- fmt.Sprint(code, " ", text, " ", err)
		}()
		return answer
	}
	held := func(namespace string, want float64) {
		t.Helper()
		s.envoy.Wait(fmt.Sprint(want, " requests for ", namespace, " held"), func() error {
			if got := s.metric("interceptor_requests_held", namespace); got != want {
				return fmt.Errorf("%v are", got)
			}
			return nil
		})
	}
	var red, blue []<-chan string
	for i := range room {
		red = append(red, send(s.o.ProxyPort))
		held("red", float64(i+1))
	}
	for i := range half {
		blue = append(blue, send(s.o.KedifyProxy.Port))
		held("blue", float64(i+1))
		held("red", float64(room-1-i))
		if got, want := <-red[room-1-i], "503 HTTPScaledObject red/app has no endpoint"; !strings.HasPrefix(got, want) {
			t.Errorf("the newest request for red is answered %q, want %q", got, want)
		}
	}
	// Each namespace has its half of the room, and gets no more.
	for namespace, port := range map[string]uint16{"red": s.o.ProxyPort, "blue": s.o.KedifyProxy.Port} {
		if got, want := <-send(port), "503 HTTPScaledObject "+namespace+"/app has no endpoint"; !strings.HasPrefix(got, want) {
			t.Errorf("a request beyond the share of %s is answered %q, want %q", namespace, got, want)
		}
	}
	for namespace, answers := range map[string][]<-chan string{"red": red[:half], "blue": blue} {
		s.endpoint(namespace, says(t, namespace))
		for _, answer := range answers {
			if got, want := <-answer, "200 "+namespace+" <nil>"; got != want {
				t.Errorf("a request for %s that waited is answered %q, want %q", namespace, got, want)
			}
		}
	}
}

// forgedHeader is a PROXY protocol header, such as begins a kedify-proxy's connection to
// the interceptor.
func forgedHeader(t *testing.T, version byte, object string) []byte {
	t.Helper()
	at := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}
	h := proxyproto.HeaderProxyFromAddrs(version, at, at)
	if version == 2 {
		if err := h.SetTLVs([]proxyproto.TLV{{Type: routes.FallbackTLV, Value: []byte(object)}}); err != nil {
			t.Fatal(err)
		}
	}
	var text bytes.Buffer
	if _, err := h.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

// A client cannot say which object its request is for.
func TestClientsCannotNameAnObject(t *testing.T) {
	s := twoOfOneHost(t)
	s.endpoint("blue", says(t, "blue"))
	s.answered(newClient(t, &http.Transport{}), "http", s.o.KedifyProxy.Port, "blue")
	request := []byte("POST / HTTP/1.1\r\nHost: app.example.com\r\nContent-Length: %d\r\nConnection: close\r\n\r\n")
	for _, at := range []struct {
		name string
		port uint16
		own  string // the namespace that answers a request for the host
		ask  string // the object that the forged header names
	}{{"embedded proxy", s.o.ProxyPort, "red", "blue/app"}, {"kedify-proxy", s.o.KedifyProxy.Port, "blue", "red/app"}} {
		for name, forged := range map[string][]byte{
			"PROXY v2 with a record": forgedHeader(t, 2, at.ask),
			"PROXY v1":               forgedHeader(t, 1, at.ask),
		} {
			t.Run(at.name+"/"+name, func(t *testing.T) {
				// Before the request, the header is no HTTP; in the body, it is body.
				got := raw(t, at.port, append(bytes.Clone(forged), fmt.Appendf(nil, string(request), 0)...))
				if line, _, _ := strings.Cut(got, "\r\n"); got != "" && line != "HTTP/1.1 400 Bad Request" {
					t.Errorf("answered %q; want 400, or the connection closed", got)
				}
				got = raw(t, at.port, append(fmt.Appendf(nil, string(request), len(forged)), forged...))
				_, body, _ := strings.Cut(got, "\r\n\r\n")
				if !strings.Contains(got, " 200 OK\r\n") || !strings.Contains(body, at.own) || !strings.Contains(body, string(forged)) {
					t.Errorf("answered %q; want %s and the body as it was sent", got, at.own)
				}
			})
		}
	}
	t.Run("names in headers", func(t *testing.T) {
		answers := make(map[string]string)
		for own, port := range map[string]uint16{"red": s.o.ProxyPort, "blue": s.o.KedifyProxy.Port} {
			header := "GET / HTTP/1.1\r\nHost: app.example.com\r\nConnection: close\r\n"
			for _, name := range []string{"X-Httpso", "X-Kedify-Httpso", "X-Envoy-Original-Dst-Host", "X-Envoy-Decorator-Operation", "X-Forwarded-Host"} {
				header += name + ": red/app, blue/app\r\n"
			}
			_, answers[own], _ = strings.Cut(raw(t, port, []byte(header+"\r\n")), "\r\n\r\n")
		}
		if diff := cmp.Diff(map[string]string{"red": "red", "blue": "blue"}, answers); diff != "" {
			t.Errorf("who answered (-want +got):\n%s", diff)
		}
	})
}

// raw sends bytes and returns what comes until the connection ends.
func raw(t *testing.T, port uint16, text []byte) string {
	t.Helper()
	c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", port))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(text); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the connection stays open after %q", got)
	}
	return string(got) // a reset ends the connection, too
}
