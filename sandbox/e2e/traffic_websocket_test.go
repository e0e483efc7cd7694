package e2e

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

// TestTrafficWebSocket splits WebSocket connections. Each stays with the application it
// began with when the weights change, and when the split is removed and set again.
func TestTrafficWebSocket(t *testing.T) {
	t.Parallel()
	traffictest.Both(t, func(t *testing.T, n *e2etest.Namespace, p traffictest.Proxy) {
		host := n.Name + ".test"
		n.ServiceAt("stable", serveWebSockets(t, "stable"), "")
		n.ServiceAt("canary", serveWebSockets(t, "canary"), "")
		n.Apply(traffictest.Object{Name: "app", Hosts: []string{host}, Service: "stable"}.Manifest())
		split := func(weights ...e2etest.Weight) {
			t.Helper()
			traffictest.Split(t, n, "app", weights...)
			want := map[string]int{"stable": 1}
			for _, w := range weights {
				want[w.Service] = w.Weight
			}
			p.AwaitShares(t, "app", want)
		}
		split(e2etest.Weight{Service: "stable", Weight: 80}, e2etest.Weight{Service: "canary", Weight: 20})

		// Each WebSocket is a connection on each side of the proxy, whose ports stay in
		// use for a minute. So open only enough to tell 20 from 10 and from 30.
		var open []*webSocket
		traffictest.RequireShareWithin(t, p, "canary", 20, 10, func(count int, _ bool) (answers []traffic.Answer) {
			for i := range count {
				w := openWebSocket(t, p, host)
				answers = append(answers, traffic.Answer{Number: i, Backend: w.name})
				if len(open) < 50 {
					open = append(open, w)
				} else {
					w.close()
				}
			}
			return answers
		})
		requireRefusal(t, p, host)
		for i, weights := range [][]e2etest.Weight{
			{{Service: "stable", Weight: 50}, {Service: "canary", Weight: 50}},
			{{Service: "stable", Weight: 0}, {Service: "canary", Weight: 100}},
			{},
			{{Service: "stable", Weight: 90}, {Service: "canary", Weight: 10}},
		} {
			split(weights...)
			for _, w := range open {
				w.exchange(fmt.Sprintf("after change %d", i+1))
			}
		}
		for _, w := range open {
			w.close()
		}
	})
}

// webSocket is a connection to an application of serveWebSockets.
type webSocket struct {
	t    *testing.T
	conn *websocket.Conn
	name string // of the application that it began with
}

// serveWebSockets answers each message on a WebSocket with "<name>: <message>", except
// that it refuses a WebSocket at /refused. It returns its address.
func serveWebSockets(t *testing.T, name string) traffictest.Addr {
	t.Helper()
	upgrader := websocket.Upgrader{}
	url := e2etest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/refused" {
			http.Error(w, "not today", http.StatusForbidden)
			return
		}
		conn, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return // not a WebSocket request; Upgrade has sent an error response
		}
		defer func() { _ = conn.Close() }()
		for {
			kind, message, err := conn.ReadMessage()
			if err != nil || conn.WriteMessage(kind, append([]byte(name+": "), message...)) != nil {
				return
			}
		}
	}))
	return traffictest.Addr(strings.TrimPrefix(url, "http://"))
}

func openWebSocket(t *testing.T, p traffictest.Proxy, host string) *webSocket {
	t.Helper()
	dialer := websocket.Dialer{NetDialContext: p.Dial, HandshakeTimeout: 20 * time.Second}
	conn, response, err := dialer.DialContext(t.Context(), "ws://"+host+"/chat", nil)
	if err != nil {
		status := ""
		if response != nil {
			status = response.Status
		}
		t.Fatalf("opening a WebSocket: %v %s", err, status)
	}
	t.Cleanup(func() { _ = conn.Close() })
	w := &webSocket{t: t, conn: conn}
	w.name = strings.TrimSuffix(w.send("hello"), ": hello")
	return w
}

// requireRefusal fails the test unless an application's refusal of a WebSocket
// arrives unchanged.
func requireRefusal(t *testing.T, p traffictest.Proxy, host string) {
	t.Helper()
	dialer := websocket.Dialer{NetDialContext: p.Dial, HandshakeTimeout: 20 * time.Second}
	_, response, err := dialer.DialContext(t.Context(), "ws://"+host+"/refused", nil)
	if !errors.Is(err, websocket.ErrBadHandshake) {
		t.Fatalf("a WebSocket that the application refuses: %v", err)
	}
	body, err := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusForbidden || string(body) != "not today\n" {
		t.Errorf("a refusal arrives as %s %q (%v)", response.Status, body, err)
	}
}

// send sends a message and returns the answer.
func (w *webSocket) send(message string) string {
	w.t.Helper()
	if err := w.conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		w.t.Fatal(err)
	}
	if err := w.conn.WriteMessage(websocket.TextMessage, []byte(message)); err != nil {
		w.t.Fatalf("%s: writing to a WebSocket of %s: %v", message, w.name, err)
	}
	_, answer, err := w.conn.ReadMessage()
	if err != nil {
		w.t.Fatalf("%s: reading from a WebSocket of %s: %v", message, w.name, err)
	}
	return string(answer)
}

// exchange sends a message, and fails the test unless the application that the
// connection began with answers.
func (w *webSocket) exchange(message string) {
	w.t.Helper()
	if got, want := w.send(message), w.name+": "+message; got != want {
		w.t.Errorf("a WebSocket answers %q, want %q", got, want)
	}
}

// close ends the connection by the closing handshake: it sends a close frame, and
// expects one in return.
func (w *webSocket) close() {
	w.t.Helper()
	message := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "enough")
	if err := w.conn.WriteControl(websocket.CloseMessage, message, time.Now().Add(20*time.Second)); err != nil {
		w.t.Errorf("closing a WebSocket of %s: %v", w.name, err)
	}
	if _, _, err := w.conn.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
		w.t.Errorf("a WebSocket of %s ends with %v, want a normal close", w.name, err)
	}
	_ = w.conn.Close()
}
