package contour

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// client asks for the colour of the version that answers.
type client func(context.Context) (string, error)

func grpcClient(t *testing.T, address, host string) client {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority(host))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return func(ctx context.Context) (string, error) {
		answer := &wrapperspb.StringValue{}
		err := conn.Invoke(ctx, "/sandbox.Protocols/Color", &emptypb.Empty{}, answer)
		return answer.Value, err
	}
}

// tlsClient makes a TLS connection for each call. The certificate must be that of the
// version that answers, since the Gateway has none.
func tlsClient(address, host string) client {
	//nolint:gosec // The name in the certificate is looked at; nobody has signed it.
	dialer := &tls.Dialer{Config: &tls.Config{ServerName: host, InsecureSkipVerify: true}}
	return func(ctx context.Context) (string, error) {
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return "", err
		}
		colour, err := readLine(ctx, conn)
		certificate := conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
		if want := colour + ".protocols.test"; err == nil && certificate.DNSNames[0] != want {
			err = fmt.Errorf("the certificate is of %s, want %s", certificate.DNSNames[0], want)
		}
		return colour, err
	}
}

func tcpClient(address string) client {
	return func(ctx context.Context) (string, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return "", err
		}
		return readLine(ctx, conn)
	}
}

// readLine reads the one line that the server sends, and closes the connection.
func readLine(ctx context.Context, conn net.Conn) (string, error) {
	defer func() { _ = conn.Close() }()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetReadDeadline(deadline); err != nil {
			return "", err
		}
	}
	text, err := io.ReadAll(conn)
	colour, ended := strings.CutSuffix(string(text), "\n")
	if err == nil && !ended {
		err = fmt.Errorf("the connection has brought %q and no line", text)
	}
	return colour, err
}

func askWithin(ctx context.Context, ask client) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return ask(ctx)
}
