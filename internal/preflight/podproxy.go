package preflight

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
)

// maxDump bounds what is read from a proxy: the routes of some 30,000
// HTTPScaledObjects.
const maxDump = 64 << 20

// podGet asks a pod, through the API server.
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
	stream, err := request.Stream(ctx)
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
