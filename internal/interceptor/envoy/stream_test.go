package envoy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// A stream like those of gRPC: both directions at once, HTTP/2 end to end, and the status
// in trailers.
func TestStreamByARealEnvoy(t *testing.T) {
	w := newWorld(t)
	w.service("grpc", routes.H2C, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Grpc-Status")
		w.WriteHeader(http.StatusOK)
		control := http.NewResponseController(w)
		if err := control.Flush(); err != nil {
			t.Error(err)
		}
		for lines := bufio.NewScanner(r.Body); lines.Scan(); {
			fmt.Fprintf(w, "%s %s %s\n", r.Proto, r.Header.Get("Te"), lines.Text())
			if err := control.Flush(); err != nil {
				t.Error(err)
			}
		}
		w.Header().Set("Grpc-Status", "0")
	})))
	w.object("grpc", "grpc", "", nil)
	address := startEnvoy(t, static(t, newTranslator(t, Options{}), w.table(), nil))
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)

	body, write := io.Pipe()
	r, err := http.NewRequest(http.MethodPost, "http://"+address+"/", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "grpc.example.com"
	r.Header.Set("Te", "trailers")
	res, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	lines := bufio.NewReader(res.Body)
	for i := range 3 {
		fmt.Fprintf(write, "message %d\n", i)
		// Each answer is there before the next message is sent.
		if line, err := lines.ReadString('\n'); line != fmt.Sprintf("HTTP/2.0 trailers message %d\n", i) {
			t.Fatalf("answered %q, %v", line, err)
		}
	}
	_ = write.Close()
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Errorf("there is more: %q, %v", rest, err)
	}
	if got := res.Trailer.Get("Grpc-Status"); got != "0" {
		t.Errorf("Grpc-Status is %q", got)
	}
}

// A connection can be upgraded to WebSocket, and to nothing else.
func TestUpgradeByARealEnvoy(t *testing.T) {
	w := newWorld(t)
	w.service("app", routes.HTTP1, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = c.Close() }()
		fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Upgrade"))
		_, _ = io.Copy(c, buffered)
	})))
	w.object("app", "app", "", nil)
	address := startEnvoy(t, static(t, newTranslator(t, Options{}), w.table(), nil))
	upgrade := func(to string) (net.Conn, *bufio.Reader, int) {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		fmt.Fprintf(c, "%sConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", get, to)
		reader := bufio.NewReader(c)
		res, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c, reader, res.StatusCode
	}
	c, reader, code := upgrade("websocket")
	if code != http.StatusSwitchingProtocols {
		t.Fatalf("an upgrade to WebSocket is answered %d", code)
	}
	for i := range 3 {
		fmt.Fprintf(c, "frame %d\n", i)
		if line, err := reader.ReadString('\n'); line != fmt.Sprintf("frame %d\n", i) {
			t.Fatalf("answered %q, %v", line, err)
		}
	}
	if _, _, code := upgrade("something-else"); code != http.StatusForbidden {
		t.Errorf("an upgrade to something else is answered %d", code)
	}
}
