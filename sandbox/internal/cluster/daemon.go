package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/node"
)

// componentTimeout is how long a component may take to become ready. It takes
// seconds, but machines can be slow and busy.
const componentTimeout = 90 * time.Second

// daemon runs a sandbox, inside it.
type daemon struct {
	layout     Layout
	settings   settings
	log        *slog.Logger
	events     *events
	config     *rest.Config
	client     *kubernetes.Clientset
	supervisor *supervisor
	started    time.Time
}

// DaemonMain runs the sandbox in the state directory of l until a signal ends
// it: the network, the releases server, the components, and what is installed
// in the cluster. A sandbox that fails to come up stays, so that it can be
// looked at, until it is taken down. It returns the exit code.
func DaemonMain(l Layout) int {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil)).With("component", "daemon")
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	if err := runDaemon(ctx, l, log); err != nil {
		log.Error(err.Error())
		return 1
	}
	return 0
}

func runDaemon(ctx context.Context, l Layout, log *slog.Logger) error {
	listener, err := listenControl(l)
	if err != nil {
		return err
	}
	d := &daemon{layout: l, log: log, events: newEvents(), started: time.Now()}
	if d.settings, err = loadSettings(l); err != nil {
		return err
	}
	if d.config, err = restConfig(l.Kubeconfig()); err != nil {
		return err
	}
	if d.client, err = kubernetes.NewForConfig(d.config); err != nil {
		return err
	}
	list, err := components(l, d.settings.Program, d.client)
	if err != nil {
		return err
	}
	d.supervisor = newSupervisor(l, log, list)

	go func() {
		if err := d.comeUp(ctx); err != nil {
			log.Error("the sandbox did not come up", "err", err)
			d.events.add(Event{Error: err.Error()})
			return
		}
		log.Info("the sandbox is up", "took", time.Since(d.started))
		d.events.add(Event{Ready: true})
	}()
	return serve(ctx, listener, d.handler())
}

// comeUp starts everything in its order.
func (d *daemon) comeUp(ctx context.Context) error {
	config, err := nodeConfig(d.layout, d.log)
	if err != nil {
		return err
	}
	if err := node.SetUpNetwork(config); err != nil {
		return err
	}
	if err := d.serveReleases(ctx); err != nil {
		return err
	}
	for _, name := range []string{Etcd, APIServer} {
		if err := d.supervisor.start(name); err != nil {
			return err
		}
	}
	for _, name := range []string{Etcd, APIServer} {
		if err := d.supervisor.await(ctx, name, componentTimeout, d.events.status); err != nil {
			return err
		}
	}
	d.said("etcd and kube-apiserver are ready")

	rest := []string{ControllerManager, Scheduler, Node}
	for _, name := range rest {
		if err := d.supervisor.start(name); err != nil {
			return err
		}
	}
	installed, err := d.settings.installed()
	if err != nil {
		return err
	}
	manifests, err := d.install(ctx, installed)
	if err != nil {
		return err
	}
	for _, name := range rest {
		if err := d.supervisor.await(ctx, name, componentTimeout, d.events.status); err != nil {
			return err
		}
	}
	if err := d.awaitDefaultServiceAccount(ctx); err != nil {
		return err
	}
	d.said("kube-controller-manager, kube-scheduler and the node are ready")
	return d.awaitAddons(ctx, installed, manifests)
}

// said reports a step that is done, and when it was.
func (d *daemon) said(format string, args ...any) {
	d.events.say("%5.1fs  %s", time.Since(d.started).Seconds(), fmt.Sprintf(format, args...))
}

// awaitDefaultServiceAccount waits for the ServiceAccount without which no pod
// is admitted: only then can the sandbox be used.
func (d *daemon) awaitDefaultServiceAccount(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, componentTimeout)
	defer cancel()
	err := poll(ctx, 50*time.Millisecond, func(ctx context.Context) error {
		_, err := d.client.CoreV1().ServiceAccounts(corev1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("waiting for kube-controller-manager to make ServiceAccount default/default: %w\n%s",
			err, logTail(d.layout.Log(ControllerManager)))
	}
	return nil
}

// serveReleases serves the releases directory at http://releases.sandbox/.
func (d *daemon) serveReleases(ctx context.Context) error {
	output, err := os.OpenFile(d.layout.Log("releases"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(ReleasesIP.String(), "80"))
	if err != nil {
		_ = output.Close()
		return fmt.Errorf("releases server: %w", err)
	}
	go func() {
		defer func() { _ = output.Close() }()
		log := slog.New(slog.NewTextHandler(output, nil))
		if err := serve(ctx, listener, releasesHandler(d.layout.Releases(), log)); err != nil {
			d.log.Error("the releases server has ended", "err", err)
		}
	}()
	return nil
}
