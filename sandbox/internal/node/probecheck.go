package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// maxProbeBody is how much of an answer ends up in an Event, in bytes.
const maxProbeBody = 1 << 10

// probeClient opens a new connection for each probe: a kept-alive one would not
// show whether the container still accepts connections.
var probeClient = &http.Client{
	Transport: &http.Transport{
		DisableKeepAlives:  true,
		DisableCompression: true,
		TLSClientConfig:    &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // As kubelets do: probes ask whether, not who.
	},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// probeTarget is the container that is probed.
type probeTarget struct {
	podIP string
	ports []corev1.ContainerPort
	// exec runs a command in the container; it returns whether the command exited
	// with 0, and its output.
	exec func(ctx context.Context, command []string) (bool, string)
}

// check makes one probe. The text says what was wrong.
func (t probeTarget) check(ctx context.Context, handler corev1.ProbeHandler) (bool, string) {
	switch {
	case handler.HTTPGet != nil:
		return t.http(ctx, handler.HTTPGet)
	case handler.TCPSocket != nil:
		port, err := t.port(handler.TCPSocket.Port)
		if err != nil {
			return false, err.Error()
		}
		host := t.podIP
		if handler.TCPSocket.Host != "" {
			host = handler.TCPSocket.Host
		}
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, port))
		if err != nil {
			return false, err.Error()
		}
		_ = conn.Close()
		return true, ""
	case handler.GRPC != nil:
		return t.grpc(ctx, handler.GRPC)
	case handler.Exec != nil:
		return t.exec(ctx, handler.Exec.Command)
	}
	return false, "the probe has no handler"
}

func (t probeTarget) http(ctx context.Context, get *corev1.HTTPGetAction) (bool, string) {
	request, err := t.request(ctx, get)
	if err != nil {
		return false, err.Error()
	}
	response, err := probeClient.Do(request)
	if err != nil {
		return false, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxProbeBody))
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusBadRequest {
		return false, fmt.Sprintf("HTTP probe failed with statuscode: %d", response.StatusCode)
	}
	if err != nil {
		return false, err.Error()
	}
	return true, string(body)
}

// request is the HTTP request of a probe or of a hook.
func (t probeTarget) request(ctx context.Context, get *corev1.HTTPGetAction) (*http.Request, error) {
	port, err := t.port(get.Port)
	if err != nil {
		return nil, err
	}
	host := t.podIP
	if get.Host != "" {
		host = get.Host
	}
	path, query, _ := strings.Cut(get.Path, "?")
	target := url.URL{Scheme: "http", Host: net.JoinHostPort(host, port), Path: path, RawQuery: query}
	if get.Scheme != "" {
		target.Scheme = strings.ToLower(string(get.Scheme))
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, err
	}
	for _, h := range get.HTTPHeaders {
		if http.CanonicalHeaderKey(h.Name) == "Host" {
			request.Host = h.Value
			continue
		}
		request.Header.Add(h.Name, h.Value)
	}
	if request.Header.Get("User-Agent") == "" {
		request.Header.Set("User-Agent", "kube-probe/1.34")
	}
	if request.Header.Get("Accept") == "" {
		request.Header.Set("Accept", "*/*")
	}
	return request, nil
}

func (t probeTarget) grpc(ctx context.Context, action *corev1.GRPCAction) (bool, string) {
	conn, err := grpc.NewClient("passthrough:///"+net.JoinHostPort(t.podIP, strconv.Itoa(int(action.Port))),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUserAgent("kube-probe/1.34"))
	if err != nil {
		return false, err.Error()
	}
	defer func() { _ = conn.Close() }()
	request := &healthpb.HealthCheckRequest{}
	if action.Service != nil {
		request.Service = *action.Service
	}
	answer, err := healthpb.NewHealthClient(conn).Check(ctx, request)
	if err != nil {
		return false, err.Error()
	}
	if answer.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		return false, "service unhealthy (responded with " + answer.GetStatus().String() + ")"
	}
	return true, "service healthy"
}

// port resolves a port that may be given by name.
func (t probeTarget) port(p intstr.IntOrString) (string, error) {
	if p.Type == intstr.Int {
		return checkPort(int(p.IntVal))
	}
	for _, port := range t.ports {
		if port.Name == p.StrVal {
			return checkPort(int(port.ContainerPort))
		}
	}
	if number, err := strconv.Atoi(p.StrVal); err == nil {
		return checkPort(number)
	}
	return "", fmt.Errorf("the container has no port named %q", p.StrVal)
}

func checkPort(port int) (string, error) {
	if port < 1 || port > 65535 {
		return "", errors.New("port " + strconv.Itoa(port) + " is not in 1 to 65535")
	}
	return strconv.Itoa(port), nil
}

// runHook runs a preStop hook and returns when it has finished or ctx ended. Only
// ctx bounds its time: a hook that waits for connections to end, as Contour's does,
// answers once they have ended.
func (t probeTarget) runHook(ctx context.Context, h *corev1.LifecycleHandler) error {
	switch {
	case h.Sleep != nil:
		sleep(ctx, time.Duration(h.Sleep.Seconds)*time.Second)
		return nil
	case h.HTTPGet != nil:
		request, err := t.request(ctx, h.HTTPGet)
		if err != nil {
			return err
		}
		response, err := probeClient.Do(request)
		if err != nil {
			return err
		}
		return response.Body.Close()
	case h.Exec != nil:
		if ok, output := t.exec(ctx, h.Exec.Command); !ok {
			return fmt.Errorf("command %q: %s", strings.Join(h.Exec.Command, " "), output)
		}
		return nil
	}
	return errors.New("the sandbox knows httpGet, exec and sleep hooks")
}
