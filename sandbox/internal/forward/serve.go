package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/dns"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/relay"
)

const (
	// findTimeout bounds the look at the Service.
	findTimeout = 10 * time.Second
	// dialTimeout bounds one connection to the Service.
	dialTimeout = 10 * time.Second
	// acceptPause is the pause after an error of accept, such as being out of file
	// descriptors.
	acceptPause = 100 * time.Millisecond
)

// Options of Serve.
type Options struct {
	Target Target
	// Listener takes the connections to relay. Serve closes it.
	Listener *net.TCPListener
	// Client is used to look up the Service, once.
	Client kubernetes.Interface
	// ClusterDNS is the DNS server that is asked for the Service's address at each
	// connection: a Service that is deleted and created again has another one.
	ClusterDNS netip.AddrPort
	// Out gets one line with the URL once connections are relayed, Err a line when
	// the Service cannot be reached, once until that changes.
	Out, Err io.Writer
}

// Serve relays each connection to the Service until ctx ends, and returns nil then.
// It returns an error at once if there is no such Service or port. The Service
// refuses connections while it has no endpoints; Serve goes on.
func Serve(ctx context.Context, opts Options) error {
	defer func() { _ = opts.Listener.Close() }()
	finding, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	t := opts.Target
	service, err := opts.Client.CoreV1().Services(t.Namespace).Get(finding, t.Service, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("%s: %w", t, err)
	}
	port, err := t.choosePort(service)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(opts.Out, "%s://%s leads to port %s of %s; Ctrl-C ends it\n",
		scheme(port), opts.Listener.Addr(), describe([]corev1.ServicePort{port}), t); err != nil {
		return err
	}
	f := forwarder{
		address: net.JoinHostPort(t.Service+"."+t.Namespace+".svc."+dns.Domain+".", strconv.Itoa(int(port.Port))),
		dialer:  net.Dialer{Timeout: dialTimeout, Resolver: resolver(opts.ClusterDNS)},
		faults:  &faults{out: opts.Err},
	}
	stop := context.AfterFunc(ctx, func() { _ = opts.Listener.Close() })
	defer stop()
	for {
		conn, err := opts.Listener.AcceptTCP()
		switch {
		case errors.Is(err, net.ErrClosed) && ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept: %w", err)
		case err != nil:
			f.faults.report(fmt.Errorf("accept: %w", err))
			time.Sleep(acceptPause)
		default:
			go f.relay(ctx, conn)
		}
	}
}

// resolver asks the cluster's DNS server, whatever /etc/resolv.conf says.
func resolver(server netip.AddrPort) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, server.String())
	}}
}

type forwarder struct {
	address string
	dialer  net.Dialer
	faults  *faults
}

// relay carries one connection. The end of ctx resets it.
func (f forwarder) relay(ctx context.Context, client *net.TCPConn) {
	stopClient := context.AfterFunc(ctx, func() { relay.Reset(client) })
	defer stopClient()
	conn, err := f.dialer.DialContext(ctx, "tcp4", f.address)
	if ctx.Err() == nil {
		f.faults.report(err)
	}
	if err != nil {
		relay.Reset(client)
		return
	}
	service := conn.(*net.TCPConn)
	stopService := context.AfterFunc(ctx, func() { relay.Reset(service) })
	defer stopService()
	relay.Join(client, service)
}
