package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/kubernetes"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/forward"
)

const (
	// forwardInside is the command that forwardCommand runs inside the sandbox.
	forwardInside = "forward-inside"
	// forwardFD is the file descriptor of its listening socket.
	forwardFD = 3
)

func forwardCommand(w *which) *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:   "forward [NAMESPACE/]SERVICE[:PORT]",
		Short: "Relay from this machine to a Service of a sandbox",
		Long: `Relay TCP connections from an address of this machine to a Service of a sandbox,
for a browser say, and print the URL. The namespace is "default" unless given; the port
is a number or a name, and can be left out where there is only one. Each connection goes
to an endpoint that the Service has at that moment. It runs until Ctrl-C, or until the
sandbox goes down.`,
		Example: "  sandbox forward rollouts-demo/kedify-proxy:http --listen 127.0.0.1:8080",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := forward.ParseTarget(args[0]); err != nil {
				return err
			}
			if cluster.Inside() {
				return errors.New("this is the inside of a sandbox, where Services are reached by their names; run forward outside")
			}
			s, err := w.open()
			if err != nil {
				return err
			}
			listener, err := listenForward(listen)
			if err != nil {
				return err
			}
			if address := listener.Addr().(*net.TCPAddr); !address.IP.IsLoopback() {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s is not a loopback address: whoever reaches this machine there reaches the Service\n", address)
			}
			return runForward(cmd.Context(), s, listener, args[0])
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "IP address and port of this machine to relay from; port 0 is any free one")
	return cmd
}

func listenForward(address string) (*net.TCPListener, error) {
	parsed, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, fmt.Errorf("--listen %q: expected an IP address and a port, as in 127.0.0.1:8080", address)
	}
	listener, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(parsed))
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("--listen %s: another program listens there; choose another port, or leave --listen out for a free one", address)
	}
	if err != nil {
		return nil, fmt.Errorf("--listen %s: %w", address, err)
	}
	return listener, nil
}

// runForward hands the listening socket to a process inside the sandbox: a socket
// stays in the network namespace that it was made in, so that process accepts
// connections from this machine's network and connects in the sandbox's.
func runForward(ctx context.Context, s *cluster.Sandbox, listener *net.TCPListener, target string) error {
	socket, err := listener.File()
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	// Only the process inside may hold the socket.
	if err := listener.Close(); err != nil {
		return errors.Join(err, socket.Close())
	}
	cmd, err := s.Command(ctx, s.Layout().Program(), forwardInside, target)
	if err != nil {
		return errors.Join(err, socket.Close())
	}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{socket}
	// In a process group of its own it gets no Ctrl-C: this process ends it in
	// order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGTERM, Setpgid: true}
	err = cmd.Start()
	_ = socket.Close()
	if err != nil {
		return err
	}
	code, err := cluster.ExitCode(cmd.Wait())
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	case code == 1: // The relay has said why.
		return exitError(code)
	}
	return fmt.Errorf("the relay inside the sandbox ended with exit code %d: the sandbox has gone down, or somebody has ended it; see `sandbox status`", code)
}

// forwardInsideCommand is the part of forward that runs inside the sandbox.
func forwardInsideCommand() *cobra.Command {
	return &cobra.Command{
		Use: forwardInside, Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			target, err := forward.ParseTarget(args[0])
			if err != nil {
				return err
			}
			config, err := cluster.RESTConfig()
			if err != nil {
				return err
			}
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				return err
			}
			socket := os.NewFile(forwardFD, "listener")
			listener, err := net.FileListener(socket)
			if err != nil {
				return fmt.Errorf("descriptor %d: expected a listening socket: %w", forwardFD, err)
			}
			if err := socket.Close(); err != nil {
				return err
			}
			tcp, ok := listener.(*net.TCPListener)
			if !ok {
				return fmt.Errorf("descriptor %d: expected a TCP socket", forwardFD)
			}
			return forward.Serve(cmd.Context(), forward.Options{
				Target: target, Listener: tcp, Client: client, ClusterDNS: netip.AddrPortFrom(cluster.ClusterDNS, 53),
				Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr(),
			})
		},
	}
}
