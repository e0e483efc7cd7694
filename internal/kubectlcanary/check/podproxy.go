package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
)

// maxDump bounds what is read from a proxy: the routes of some 30,000
// HTTPScaledObjects.
const maxDump = 64 << 20

// whenClosed is how often, and for how long, a pod is asked again that closes the
// connection without an answer: 8 s in all, which is less than callTimeout.
var whenClosed = wait.Backoff{Duration: 250 * time.Millisecond, Factor: 1.5, Steps: 8}

// podProxy is a port of a pod, which is asked through the API server.
type podProxy struct {
	corev1.Pod
	port    int32
	cluster *cluster
}

// podsBehind returns the live pods that a Service selects, at a port of the Service.
func podsBehind(ctx context.Context, c *cluster, service corev1.Service, port int32) read[[]podProxy] {
	t := target{version: "v1", resource: "pods", namespace: service.Namespace}
	t.query = map[string]string{"labelSelector": metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: service.Spec.Selector})}
	answer := list[corev1.Pod](ctx, c, t)
	pods := read[[]podProxy]{Err: answer.Err}
	for _, pod := range livePods(answer.Value) {
		pods.Value = append(pods.Value, podProxy{pod, podPort(service, pod, port), c})
	}
	return pods
}

// podPort returns the port of a pod behind a port of a Service, or the same number
// if the Service does not say.
func podPort(service corev1.Service, pod corev1.Pod, port int32) int32 {
	for _, p := range service.Spec.Ports {
		if p.Port != port {
			continue
		}
		if number := p.TargetPort.IntValue(); number > 0 {
			return int32(number)
		}
		for _, container := range pod.Spec.Containers {
			for _, named := range container.Ports {
				if named.Name == p.TargetPort.StrVal {
					return named.ContainerPort
				}
			}
		}
	}
	return port
}

func (p podProxy) running() bool { return p.Status.Phase == corev1.PodRunning }

func (p podProxy) target() target {
	return target{version: "v1", resource: "pods", namespace: p.Namespace, name: p.Name, subresource: "proxy"}
}

// get asks the pod. A kedify-proxy that has as many connections to port 9901 as it may closes
// the next one without an answer. Those that nobody uses end after 5 s, so get asks again.
func (p podProxy) get(ctx context.Context, path string, query url.Values) ([]byte, *readError) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	at := p.target()
	at.name, at.subresource = p.Name+":"+strconv.Itoa(int(p.port)), "proxy"+path
	request := p.cluster.client.Get().AbsPath(at.path())
	for key, values := range query {
		for _, value := range values {
			request = request.Param(key, value)
		}
	}
	var stream io.ReadCloser
	err := retry.OnError(whenClosed, closedUnanswered, func() (err error) {
		stream, err = request.Stream(ctx)
		return err
	})
	if err != nil {
		return nil, p.target().failed("get", err)
	}
	data, err := io.ReadAll(io.LimitReader(stream, maxDump+1))
	if err = errors.Join(err, stream.Close()); err == nil && len(data) > maxDump {
		err = fmt.Errorf("%s is larger than %d MiB", path, maxDump>>20)
	}
	if err != nil {
		return nil, p.target().failed("get", err)
	}
	return data, nil
}

// read is get for an answer in JSON.
func (p podProxy) read(ctx context.Context, path string, query url.Values, into any) *readError {
	data, failed := p.get(ctx, path, query)
	if failed != nil {
		return failed
	}
	if err := json.Unmarshal(data, into); err != nil {
		return p.target().failed("get", fmt.Errorf("unreadable answer to %s: %w", path, err))
	}
	return nil
}

// closedUnanswered is true for what the API server says of a pod that closed the
// connection without an answer.
func closedUnanswered(err error) bool {
	return apierrors.IsServiceUnavailable(err) &&
		(strings.HasSuffix(err.Error(), "EOF") || strings.HasSuffix(err.Error(), "connection reset by peer"))
}
