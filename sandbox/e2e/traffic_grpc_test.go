package e2e

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

// TestTrafficGRPC splits the calls of one gRPC connection, since each is a request.
// Answers, errors and cancellations arrive, and open streams stay with the application
// they began with when the weights change and when the split is removed.
func TestTrafficGRPC(t *testing.T) {
	t.Parallel()
	traffictest.Both(t, func(t *testing.T, n *e2etest.Namespace, p traffictest.Proxy) {
		host := n.Name + ".test"
		stable, canary := newEcho(t, "stable"), newEcho(t, "canary")
		n.ServiceAt("stable", stable.addr, "kubernetes.io/h2c")
		n.ServiceAt("canary", canary.addr, "grpc")
		n.Apply(traffictest.Object{Name: "app", Hosts: []string{host}, Service: "stable"}.Manifest())
		traffictest.Split(t, n, "app", e2etest.Weight{Service: "stable", Weight: 80}, e2etest.Weight{Service: "canary", Weight: 20})
		p.AwaitShares(t, "app", map[string]int{"stable": 80, "canary": 20})
		client := dialEcho(t, p, host)

		traffictest.RequireShare(t, p, "canary", 20, func(count int, ordered bool) []traffic.Answer {
			return traffictest.Ask(count, ordered, func(int) traffic.Answer {
				said, err := client.trySay(t.Context(), "hello")
				if err != nil {
					return traffic.Answer{Problem: err.Error()}
				}
				from, _, _ := strings.Cut(said, ":")
				return traffic.Answer{Backend: from}
			})
		})

		if _, err := client.trySay(t.Context(), "fail"); status.Code(err) != codes.FailedPrecondition || status.Convert(err).Message() != "as asked for, ü" {
			t.Errorf("an error of the application arrives as %v", err)
		}
		// A call can be over before it reaches the application: repeat until one has.
		e2etest.Eventually(t, e2etest.Patience, "a call of the application is cancelled", func(ctx context.Context) error {
			// Without a deadline: an application knows it too, and may end the call first.
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(200*time.Millisecond, cancel)
			if _, err := client.trySay(ctx, "wait"); status.Code(err) != codes.Canceled {
				t.Errorf("the client's own cancellation arrives as %v", err)
			}
			select {
			case <-stable.cancelled:
			case <-canary.cancelled:
			default:
				return errors.New("none is")
			}
			return nil
		})

		// Open a stream to each application.
		streams := map[string]*chat{}
		for range 200 {
			c := client.chat(t)
			from := c.exchange("first")
			if streams[from] != nil {
				c.finish(from)
				continue
			}
			streams[from] = c
			if len(streams) == 2 {
				break
			}
		}
		if streams["stable"] == nil || streams["canary"] == nil {
			t.Fatalf("of 200 streams, all went to one side: %v", streams)
		}
		exchange := func(when string) {
			t.Helper()
			for from, c := range streams {
				if got := c.exchange(when); got != from {
					t.Errorf("%s: the stream of %s is answered by %s", when, from, got)
				}
			}
		}
		traffictest.Split(t, n, "app", e2etest.Weight{Service: "stable", Weight: 0}, e2etest.Weight{Service: "canary", Weight: 100})
		p.AwaitShares(t, "app", map[string]int{"canary": 100})
		exchange("all to the canary")
		if got := client.say(t.Context(), "hello"); got != "canary: hello" {
			t.Errorf("all to the canary: %s", got)
		}
		traffictest.Split(t, n, "app")
		p.AwaitShares(t, "app", map[string]int{"stable": 1})
		exchange("no split")
		if got := client.say(t.Context(), "hello"); got != "stable: hello" {
			t.Errorf("no split: %s", got)
		}
		for from, c := range streams {
			c.finish(from)
		}
	})
}

// echo is a gRPC application: /test.Echo/Say answers "<name>: <message>", and
// /test.Echo/Chat answers each message with "<name>".
type echo struct {
	name      string
	addr      net.Addr
	cancelled chan struct{} // gets an element for each waiting call that is cancelled
}

func newEcho(t *testing.T, name string) *echo {
	t.Helper()
	listener := e2etest.ListenForPods(t)
	e := &echo{name: name, addr: listener.Addr(), cancelled: make(chan struct{}, 100)}
	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.Echo",
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Say", Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			said := &wrapperspb.StringValue{}
			if err := decode(said); err != nil {
				return nil, err
			}
			return e.say(ctx, said)
		}}},
		Streams: []grpc.StreamDesc{{StreamName: "Chat", Handler: e.chat, ServerStreams: true, ClientStreams: true}},
	}, e)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Errorf("the application %s: %v", name, err)
		}
	})
	return e
}

func (e *echo) say(ctx context.Context, said *wrapperspb.StringValue) (*wrapperspb.StringValue, error) {
	switch said.Value {
	case "fail":
		return nil, status.Error(codes.FailedPrecondition, "as asked for, ü")
	case "wait":
		<-ctx.Done()
		e.cancelled <- struct{}{}
		return nil, ctx.Err()
	}
	return wrapperspb.String(e.name + ": " + said.Value), nil
}

func (e *echo) chat(_ any, stream grpc.ServerStream) error {
	for {
		said := &wrapperspb.StringValue{}
		if err := stream.RecvMsg(said); errors.Is(err, io.EOF) {
			stream.SetTrailer(metadata.Pairs("from", e.name))
			return nil
		} else if err != nil {
			return err
		}
		if err := stream.SendMsg(wrapperspb.String(e.name)); err != nil {
			return err
		}
	}
}

// echoClient calls an echo through a proxy, over one connection.
type echoClient struct {
	t    *testing.T
	conn *grpc.ClientConn
}

func dialEcho(t *testing.T, p traffictest.Proxy, host string) echoClient {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+p.Address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority(host))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return echoClient{t, conn}
}

func (c echoClient) trySay(ctx context.Context, what string) (string, error) {
	answer := &wrapperspb.StringValue{}
	err := c.conn.Invoke(ctx, "/test.Echo/Say", wrapperspb.String(what), answer)
	return answer.Value, err
}

func (c echoClient) say(ctx context.Context, what string) string {
	c.t.Helper()
	answer, err := c.trySay(ctx, what)
	if err != nil {
		c.t.Fatalf("a call: %v", err)
	}
	return answer
}

// chat is a stream in both directions.
type chat struct {
	t      *testing.T
	stream grpc.ClientStream
}

func (c echoClient) chat(t *testing.T) *chat {
	t.Helper()
	stream, err := c.conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/test.Echo/Chat")
	if err != nil {
		t.Fatalf("a stream: %v", err)
	}
	return &chat{t, stream}
}

// exchange sends a message and returns the answer.
func (c *chat) exchange(what string) string {
	c.t.Helper()
	answer := &wrapperspb.StringValue{}
	if err := errors.Join(c.stream.SendMsg(wrapperspb.String(what)), c.stream.RecvMsg(answer)); err != nil {
		c.t.Fatalf("%s: on an open stream: %v", what, err)
	}
	return answer.Value
}

// finish half-closes a stream, and fails the test unless the stream then ends with the
// trailer of the application.
func (c *chat) finish(from string) {
	c.t.Helper()
	if err := c.stream.CloseSend(); err != nil {
		c.t.Fatal(err)
	}
	if err := c.stream.RecvMsg(&wrapperspb.StringValue{}); !errors.Is(err, io.EOF) {
		c.t.Errorf("the stream of %s ends with %v", from, err)
	}
	if got := c.stream.Trailer().Get("from"); len(got) != 1 || got[0] != from {
		c.t.Errorf("the stream of %s ends with the trailer %q", from, got)
	}
}
