package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	remotecommandconsts "k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/kubelet/pkg/cri/streaming/portforward"
	"k8s.io/kubelet/pkg/cri/streaming/remotecommand"
)

const (
	// streamIdle is how long a port-forward or exec may be without data.
	streamIdle = 4 * time.Hour
	// streamCreation is how long a client may take to open its streams.
	streamCreation = 30 * time.Second
)

// api is the part of the kubelet's HTTP API that the API server calls on behalf of
// kubectl.
type api struct {
	node     *node
	listener net.Listener
}

// listenAPI opens the kubelet API's port. Clients must present a certificate signed
// by ClientCAFile.
func (n *node) listenAPI() (*api, error) {
	certificate, err := tls.LoadX509KeyPair(n.cfg.ServingCertFile, n.cfg.ServingKeyFile)
	if err != nil {
		return nil, fmt.Errorf("kubelet API: serving certificate: %w", err)
	}
	ca, err := os.ReadFile(n.cfg.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("kubelet API: client CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("kubelet API: client CA: %s has no certificate", n.cfg.ClientCAFile)
	}
	address := netip.AddrPortFrom(n.cfg.NodeIP, APIPort).String()
	listener, err := tls.Listen("tcp4", address, &tls.Config{
		Certificates: []tls.Certificate{certificate},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    pool,
		MinVersion:   tls.VersionTLS12,
		// Streams hijack the connection, which HTTP/2 does not allow.
		NextProtos: []string{"http/1.1"},
	})
	if err != nil {
		return nil, fmt.Errorf("kubelet API: %w", err)
	}
	return &api{node: n, listener: listener}, nil
}

// serve answers until ctx ends, and closes all connections then.
func (a *api) serve(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	mux.HandleFunc("GET /pods", a.pods)
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", a.logs)
	mux.HandleFunc("/portForward/{namespace}/{pod}", a.portForward)
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", a.exec)
	server := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 30 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          log.New(slogWriter{a.node.cfg.Log}, "", 0),
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(a.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("kubelet API: %w", err)
	}
	return nil
}

// slogWriter logs the HTTP server's own error messages.
type slogWriter struct{ log *slog.Logger }

func (w slogWriter) Write(p []byte) (int, error) {
	w.log.Debug("kubelet API", "message", string(p))
	return len(p), nil
}

func (a *api) pods(w http.ResponseWriter, _ *http.Request) {
	list := corev1.PodList{}
	list.Kind, list.APIVersion = "PodList", "v1"
	a.node.mu.Lock()
	var workers []*worker
	for _, worker := range a.node.workers {
		workers = append(workers, worker)
	}
	a.node.mu.Unlock()
	for _, worker := range workers {
		worker.ask(func() {
			pod := worker.pod.DeepCopy()
			pod.Status = podStatus(worker.view())
			list.Items = append(list.Items, *pod)
		})
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(list); err != nil {
		a.node.cfg.Log.Debug("kubelet API: pods", "err", err)
	}
}

// logs answers kubectl logs.
func (a *api) logs(w http.ResponseWriter, r *http.Request) {
	opts, previous, err := parseLogQuery(r.URL.Query(), time.Now())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	path, live, err := a.node.logOf(r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container"), previous)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	flush := http.NewResponseController(w)
	if err := copyLog(r.Context(), w, func() { _ = flush.Flush() }, path, live, opts); err != nil {
		a.node.cfg.Log.Debug("kubelet API: logs", "err", err)
	}
}

// parseLogQuery reads the query parameters of a log request, the fields of
// PodLogOptions.
func parseLogQuery(q url.Values, now time.Time) (opts logOptions, previous bool, err error) {
	opts = logOptions{tailLines: -1, limitBytes: -1}
	for name, to := range map[string]*bool{"follow": &opts.follow, "timestamps": &opts.timestamps, "previous": &previous} {
		if text := q.Get(name); text != "" {
			value, perr := strconv.ParseBool(text)
			if perr != nil {
				err = errors.Join(err, fmt.Errorf("%s: %q: expected true or false", name, text))
			}
			*to = value
		}
	}
	var seconds int64 = -1
	for name, to := range map[string]*int64{"tailLines": &opts.tailLines, "limitBytes": &opts.limitBytes, "sinceSeconds": &seconds} {
		if text := q.Get(name); text != "" {
			value, perr := strconv.ParseInt(text, 10, 64)
			if perr != nil || value < 0 {
				err = errors.Join(err, fmt.Errorf("%s: %q: expected a number that is not negative", name, text))
			}
			*to = value
		}
	}
	if seconds >= 0 {
		opts.since = now.Add(-time.Duration(min(seconds, 1<<33)) * time.Second)
	}
	if text := q.Get("sinceTime"); text != "" {
		at, perr := time.Parse(time.RFC3339, text)
		if perr != nil {
			err = errors.Join(err, fmt.Errorf("sinceTime: %w", perr))
		}
		opts.since = at
	}
	switch stream := q.Get("stream"); stream {
	case "", corev1.LogStreamAll:
	case corev1.LogStreamStdout:
		opts.stream = "stdout"
	case corev1.LogStreamStderr:
		opts.stream = "stderr"
	default:
		err = errors.Join(err, fmt.Errorf("stream: %q: expected %s, %s or %s", stream, corev1.LogStreamAll, corev1.LogStreamStdout, corev1.LogStreamStderr))
	}
	return opts, previous, err
}

// logOf finds the log of a container's present or last run or, if previous is set,
// of the run before it. live is nil if nothing is written to the log any more.
func (n *node) logOf(namespace, pod, name string, previous bool) (path string, live *logFile, err error) {
	worker := n.worker(namespace, pod)
	if worker == nil {
		return "", nil, fmt.Errorf("pod %s/%s does not run on this node", namespace, pod)
	}
	ran := worker.ask(func() {
		c := worker.container(name)
		switch {
		case c == nil:
			err = fmt.Errorf("pod %s/%s has no container %q", namespace, pod, name)
		case c.id == "":
			reason := "ContainerCreating"
			if c.waiting != nil {
				reason = c.waiting.Reason
			}
			err = fmt.Errorf("container %q in pod %q is waiting to start: %s", name, pod, reason)
		case previous && c.restarts == 0:
			err = fmt.Errorf("previous terminated container %q in pod %q not found", name, pod)
		case previous:
			path = logPath(worker.logs, name, c.restarts-1)
		default:
			path, live = logPath(worker.logs, name, c.restarts), c.log
		}
	})
	if !ran {
		return "", nil, fmt.Errorf("pod %s/%s is gone", namespace, pod)
	}
	return path, live, err
}

func (w *worker) container(name string) *container {
	for _, c := range w.containers() {
		if c.spec.Name == name {
			return c
		}
	}
	return nil
}

// pod returns the worker of the pod that a request names, or answers 404 and
// returns nil.
func (a *api) pod(w http.ResponseWriter, r *http.Request) *worker {
	namespace, name := r.PathValue("namespace"), r.PathValue("pod")
	worker := a.node.worker(namespace, name)
	if worker == nil {
		http.Error(w, fmt.Sprintf("pod %s/%s does not run on this node", namespace, name), http.StatusNotFound)
	}
	return worker
}

// portForward answers kubectl port-forward.
func (a *api) portForward(w http.ResponseWriter, r *http.Request) {
	options, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	worker := a.pod(w, r)
	if worker == nil {
		return
	}
	portforward.ServePortForward(w, r, forwarder{worker}, worker.key.Name, worker.uid, options,
		streamIdle, streamCreation, portforward.SupportedProtocols)
}

// exec answers kubectl exec.
func (a *api) exec(w http.ResponseWriter, r *http.Request) {
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	worker := a.pod(w, r)
	if worker == nil {
		return
	}
	remotecommand.ServeExec(w, r, executor{worker}, worker.key.Name, worker.uid, r.PathValue("container"), r.URL.Query()["command"],
		options, streamIdle, streamCreation, remotecommandconsts.SupportedStreamingProtocols)
}
