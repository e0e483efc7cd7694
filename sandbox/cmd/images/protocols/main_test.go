package main

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The server answers with its colour over each protocol, and ends when it is told
// to.
func TestServe(t *testing.T) {
	listen := func() net.Listener {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	calls, secure, plain := listen(), listen(), listen()
	certificate, err := selfSigned(certificateName("blue"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- serve(ctx, "blue", calls, tls.NewListener(secure, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}), plain)
	}()

	client, err := grpc.NewClient("passthrough:///"+calls.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	answer := &wrapperspb.StringValue{}
	if err := client.Invoke(t.Context(), "/sandbox.Protocols/Color", &emptypb.Empty{}, answer); err != nil || answer.Value != "blue" {
		t.Errorf("over gRPC: %q, %v", answer.Value, err)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}

	//nolint:gosec // It is the server's own certificate; its name is what is looked at.
	conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(t.Context(), "tcp", secure.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(conn); err != nil || string(text) != "blue\n" {
		t.Errorf("over TLS: %q, %v", text, err)
	}
	if got := conn.(*tls.Conn).ConnectionState().PeerCertificates[0].DNSNames[0]; got != "blue.protocols.test" {
		t.Errorf("over TLS: the certificate is of %s", got)
	}
	bare, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", plain.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(bare); err != nil || string(text) != "blue\n" {
		t.Errorf("over TCP: %q, %v", text, err)
	}

	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the server ended with %v", err)
	}
}
