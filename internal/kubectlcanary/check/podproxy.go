package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
)

// maxDump bounds what is read from a proxy: the routes of some 30,000
// HTTPScaledObjects.
const maxDump = 64 << 20

// whenClosed is how often, and for how long, a pod is asked again that closes the
// connection without an answer: 8 s in all, which is less than callTimeout.
var whenClosed = wait.Backoff{Duration: 250 * time.Millisecond, Factor: 1.5, Steps: 8}

// podGet asks a pod, through the API server. A kedify-proxy that has as many connections to
// port 9901 as it may closes the next one without an answer. Those that nobody uses end
// after 5 s, so podGet asks again.
func (c *cluster) podGet(ctx context.Context, namespace, pod string, port int32, path string, query url.Values) read[[]byte] {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	t := target{version: "v1", resource: "pods", namespace: namespace, name: pod + ":" + strconv.Itoa(int(port)), subresource: "proxy" + path}
	request := c.client.Get().AbsPath(t.path())
	for key, values := range query {
		for _, value := range values {
			request = request.Param(key, value)
		}
	}
	t.name, t.subresource = pod, "proxy" // what has to be granted
	var stream io.ReadCloser
	err := retry.OnError(whenClosed, closedUnanswered, func() (err error) {
		stream, err = request.Stream(ctx)
		return err
	})
	if err != nil {
		return read[[]byte]{Err: t.failed("get", err)}
	}
	data, err := io.ReadAll(io.LimitReader(stream, maxDump+1))
	if err = errors.Join(err, stream.Close()); err != nil {
		return read[[]byte]{Err: t.failed("get", err)}
	}
	if len(data) > maxDump {
		return read[[]byte]{Err: t.failed("get", fmt.Errorf("%s is larger than %d MiB", path, maxDump>>20))}
	}
	return read[[]byte]{Value: data}
}

// closedUnanswered is true for what the API server says of a pod that closed the
// connection without an answer.
func closedUnanswered(err error) bool {
	return apierrors.IsServiceUnavailable(err) &&
		(strings.HasSuffix(err.Error(), "EOF") || strings.HasSuffix(err.Error(), "connection reset by peer"))
}
