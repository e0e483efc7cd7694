// Command protocols is the program behind the image sandbox/protocols:<colour>: an
// application that answers with its colour over gRPC at port 8080, over TLS at 8443 and
// over TCP at 9000, so that a test can count which version answers on each.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"

	"google.golang.org/grpc"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "protocols:", err)
		os.Exit(1)
	}
}

func run() error {
	colour := flag.String("color", os.Getenv("COLOR"), "colour to answer with (COLOR)")
	grpcAddress := flag.String("grpc-addr", ":8080", "address of gRPC")
	tlsAddress := flag.String("tls-addr", ":8443", "address of TLS")
	tcpAddress := flag.String("tcp-addr", ":9000", "address of TCP")
	flag.Parse()
	if *colour == "" || flag.NArg() > 0 {
		return errors.New("expected a colour in COLOR or --color, and no arguments")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	certificate, err := selfSigned(certificateName(*colour))
	if err != nil {
		return err
	}
	var listeners []net.Listener
	for _, address := range []string{*grpcAddress, *tlsAddress, *tcpAddress} {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err != nil {
			return err
		}
		defer func() { _ = l.Close() }()
		listeners = append(listeners, l)
	}
	return serve(ctx, *colour, listeners[0], tls.NewListener(listeners[1], &tls.Config{
		Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12,
	}), listeners[2])
}

// serve answers until ctx ends: gRPC calls on one listener, and connections to each
// of the others with a line. It closes the listeners.
func serve(ctx context.Context, colour string, calls net.Listener, lines ...net.Listener) error {
	server := newServer(colour)
	failed := make(chan error, 1+len(lines))
	go func() {
		if err := server.Serve(calls); !errors.Is(err, grpc.ErrServerStopped) {
			failed <- err
		}
	}()
	for _, l := range lines {
		go func() { failed <- answer(l, colour) }()
	}
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	for _, l := range lines {
		_ = l.Close()
	}
	server.GracefulStop()
	return err
}

// answer answers each connection with the colour on a line, and closes it.
func answer(l net.Listener, colour string) error {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go func() {
			_, err := fmt.Fprintln(conn, colour)
			if err := errors.Join(err, conn.Close()); err != nil {
				log.Printf("answer to %s: %v", conn.RemoteAddr(), err)
			}
		}()
	}
}
