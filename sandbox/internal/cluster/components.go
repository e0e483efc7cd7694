package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Names of the components that can be stopped and started.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Node              = "node"
)

// Components lists the components in the order in which they start.
func Components() []string {
	return []string{Etcd, APIServer, ControllerManager, Scheduler, Node}
}

// component is a program that the daemon keeps running.
type component struct {
	name string
	// path and args are the program and its arguments, without argument zero.
	path string
	args []string
	// grace is how long it may take to end after SIGTERM.
	grace time.Duration
	// ready returns nil once it does its work.
	ready func(context.Context) error
}

// command returns a new command that runs the component.
func (c component) command(l Layout) *exec.Cmd {
	cmd := exec.Command(c.path, c.args...)
	cmd.Dir = l.work(c.name)
	cmd.Env = os.Environ()
	return cmd
}

// components describes how each component of the sandbox is run.
func components(l Layout, program string, client kubernetes.Interface) ([]component, error) {
	probe, err := newProbe(l)
	if err != nil {
		return nil, err
	}
	return []component{
		{
			name: Etcd, path: program, args: append([]string{Etcd}, etcdArgs(l)...), grace: 5 * time.Second,
			ready: probe.get(etcdURL + "/health"),
		},
		{
			name: APIServer, path: program, args: slices.Concat([]string{APIServer}, apiServerArgs(l), auditArgs(l)), grace: 15 * time.Second,
			ready: func(ctx context.Context) error {
				_, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
				return err
			},
		},
		{
			name: ControllerManager, path: program, args: append([]string{ControllerManager}, controllerManagerArgs(l)...), grace: 10 * time.Second,
			ready: probe.get("https://" + controllerManagerAt + "/healthz"),
		},
		{
			name: Scheduler, path: program, args: append([]string{Scheduler}, schedulerArgs(l)...), grace: 10 * time.Second,
			ready: probe.get("https://" + schedulerAt + "/healthz"),
		},
		{
			name: Node, path: l.Program(), args: []string{Node, "--state", l.Dir}, grace: 40 * time.Second,
			ready: func(ctx context.Context) error { return nodeReady(ctx, client) },
		},
	}, nil
}

func etcdArgs(l Layout) []string {
	return []string{
		"--name=sandbox",
		"--data-dir=" + l.etcdData(),
		"--listen-client-urls=" + etcdURL,
		"--advertise-client-urls=" + etcdURL,
		"--listen-peer-urls=" + etcdPeerURL,
		"--initial-advertise-peer-urls=" + etcdPeerURL,
		"--initial-cluster=sandbox=" + etcdPeerURL,
		"--unsafe-no-fsync", // a sandbox does not outlive its machine
		"--log-level=warn",
	}
}

func apiServerArgs(l Layout) []string {
	return []string{
		"--advertise-address=" + NodeIP.String(),
		"--secure-port=6443",
		"--etcd-servers=" + etcdURL,
		"--service-cluster-ip-range=" + ServiceCIDR.String(),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",

		"--client-ca-file=" + l.pki("ca.crt"),
		"--tls-cert-file=" + l.pki("apiserver.crt"),
		"--tls-private-key-file=" + l.pki("apiserver.key"),

		"--service-account-issuer=https://kubernetes.default.svc." + clusterDomain,
		"--service-account-key-file=" + l.pki("service-account.pub"),
		"--service-account-signing-key-file=" + l.pki("service-account.key"),

		"--kubelet-certificate-authority=" + l.pki("ca.crt"),
		"--kubelet-client-certificate=" + l.pki("apiserver-kubelet-client.crt"),
		"--kubelet-client-key=" + l.pki("apiserver-kubelet-client.key"),
		"--kubelet-preferred-address-types=InternalIP",

		"--requestheader-client-ca-file=" + l.pki("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + l.pki("front-proxy-client.crt"),
		"--proxy-client-key-file=" + l.pki("front-proxy-client.key"),

		// Without this flag, a graceful shutdown waits for watches, which do not end
		// by themselves.
		"--shutdown-watch-termination-grace-period=1s",
		"--profiling=false",
	}
}

func controllerManagerArgs(l Layout) []string {
	return append(controllerArgs(l, "kube-controller-manager"),
		"--use-service-account-credentials=true",
		"--service-account-private-key-file="+l.pki("service-account.key"),
		"--root-ca-file="+l.pki("ca.crt"),
		"--service-cluster-ip-range="+ServiceCIDR.String(),
		"--concurrent-gc-syncs=10",
	)
}

func schedulerArgs(l Layout) []string { return controllerArgs(l, "kube-scheduler") }

// controllerArgs are the arguments of a component that acts on the API server's
// objects, runs as the only instance, and serves nothing but the probe.
func controllerArgs(l Layout, name string) []string {
	kubeconfig := l.pki(name + ".kubeconfig")
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		"--tls-cert-file=" + l.pki("loopback.crt"),
		"--tls-private-key-file=" + l.pki("loopback.key"),
		"--leader-elect=false",
		// Tests wait for controllers, which the default of 20 requests a second would
		// slow down.
		"--kube-api-qps=300",
		"--kube-api-burst=600",
		"--profiling=false",
	}
}

// probe asks components over HTTP whether they are healthy.
type probe struct{ client *http.Client }

func newProbe(l Layout) (probe, error) {
	ca, err := os.ReadFile(l.pki("ca.crt"))
	if err != nil {
		return probe{}, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return probe{}, fmt.Errorf("%s holds no certificate", l.pki("ca.crt"))
	}
	return probe{client: &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}},
	}}, nil
}

// newPlainProbe returns a probe for plain HTTP.
func newPlainProbe() probe {
	return probe{client: &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}}
}

func (p probe) get(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := p.client.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s: %s", url, response.Status, body)
		}
		return nil
	}
}

// nodeReady checks the node's port and the Node's status: the status alone may have
// been reported by a process that has ended since.
func nodeReady(ctx context.Context, client kubernetes.Interface) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(NodeIP.String(), kubeletPort))
	if err != nil {
		return err
	}
	_ = conn.Close()
	node, err := client.CoreV1().Nodes().Get(ctx, NodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, taint := range node.Spec.Taints {
		if taint.Effect == corev1.TaintEffectNoSchedule {
			return fmt.Errorf("node %s has the taint %s", NodeName, taint.Key)
		}
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			if condition.Status == corev1.ConditionTrue {
				return nil
			}
			return fmt.Errorf("node %s is not ready: %s", NodeName, condition.Message)
		}
	}
	return errors.New("node " + NodeName + " has no condition Ready yet")
}
