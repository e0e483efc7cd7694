// Package acknowledgement asks interceptors which HTTPScaledObjects the kedify-proxies of a
// namespace have acknowledged.
package acknowledgement

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/acknowledged"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

const (
	// timeout bounds the answer of one interceptor, and mostBytes its length: 20,000 objects.
	timeout   = 2 * time.Second
	mostBytes = 16 << 20
)

// Asker asks all interceptors: each kedify-proxy is connected to one of them.
type Asker struct {
	// Reader reads EndpointSlices, by which interceptors are found.
	Reader client.Reader
	// Service is the interceptors' Service, and Port their admin port.
	Service client.ObjectKey
	Port    uint16
}

// Answers are what the interceptors have answered of one namespace. Interceptors that do not
// see the API server, or do not answer, are not among them.
type Answers struct {
	answers []acknowledged.Answer
	// missing says why the others are not.
	missing []string
}

// Ask asks about a namespace.
func (a *Asker) Ask(ctx context.Context, namespace string) (*Answers, error) {
	endpoints, err := ReadyEndpoints(ctx, a.Reader, a.Service)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var (
		all Answers
		mu  sync.Mutex
		wg  sync.WaitGroup
	)
	for _, e := range endpoints {
		wg.Go(func() {
			answer, err := a.askOne(ctx, e.Addresses[0], namespace)
			if err == nil && answer.APIServer != "" {
				err = errors.New(answer.APIServer)
			}
			err = withoutPort(ctx, err)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				all.missing = append(all.missing, fmt.Sprintf("interceptor %s does not count: %v", e.Addresses[0], err))
				return
			}
			all.answers = append(all.answers, *answer)
		})
	}
	wg.Wait()
	if len(endpoints) == 0 {
		all.missing = append(all.missing, fmt.Sprintf("no interceptor is ready: Service %s has no ready endpoint", a.Service))
	}
	slices.Sort(all.missing)
	return &all, nil
}

// withoutPort returns why an interceptor does not answer, in the same words each time: an error
// of the net package names the port that the connection happened to have, and would be another
// reason to write on an HTTPScaledObject each second.
func withoutPort(ctx context.Context, err error) error {
	var op *net.OpError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("it has not answered within %v", timeout)
	case errors.As(err, &op):
		return op.Err
	}
	return err
}

func (a *Asker) askOne(ctx context.Context, address, namespace string) (*acknowledged.Answer, error) {
	url := "http://" + net.JoinHostPort(address, strconv.Itoa(int(a.Port))) + strings.ReplaceAll(acknowledged.Path, "{namespace}", namespace)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", response.Status)
	}
	answer := new(acknowledged.Answer)
	return answer, json.NewDecoder(io.LimitReader(response.Body, mostBytes)).Decode(answer)
}

// By returns nil if all of these pods, as namespace/name, have acknowledged an object as it
// is: its UID, its generation and its split. An error says what is not.
func (a *Answers) By(pods []string, object *httpv1alpha1.HTTPScaledObject) error {
	for _, pod := range pods {
		if err := a.by(pod, object); err != nil {
			return err
		}
	}
	return nil
}

func (a *Answers) by(pod string, object *httpv1alpha1.HTTPScaledObject) error {
	listed := false
	for _, answer := range a.answers {
		p := slices.IndexFunc(answer.Proxies, func(p acknowledged.Proxy) bool { return p.Pod == pod })
		if p < 0 {
			continue
		}
		listed = true
		o := slices.IndexFunc(answer.Objects, func(o acknowledged.Object) bool { return o.Name == object.Name })
		switch proxy := answer.Proxies[p]; {
		case o < 0 || answer.Objects[o].UID != string(object.UID):
			return errors.New("interceptors do not have it yet")
		case answer.Objects[o].Problem != "":
			return fmt.Errorf("interceptors do not serve it as it is: %s", answer.Objects[o].Problem)
		case answer.Objects[o].Generation != object.Generation, answer.Objects[o].Split != object.Annotations[weightedbackends.Annotation]:
			return errors.New("interceptors do not have it as it is yet")
		case proxy.Problem != "":
			return fmt.Errorf("kedify-proxy %s is not configured yet: %s", pod, proxy.Problem)
		case slices.Contains(proxy.Behind, object.Name):
			return fmt.Errorf("kedify-proxy %s has not acknowledged it as it is yet", pod)
		}
	}
	if !listed {
		return errors.New(strings.Join(append([]string{fmt.Sprintf("kedify-proxy %s is connected to no interceptor that counts", pod)}, a.missing...), "; "))
	}
	return nil
}

// ReadyEndpoints returns the endpoints of a Service that are ready.
func ReadyEndpoints(ctx context.Context, reader client.Reader, service client.ObjectKey) ([]discoveryv1.Endpoint, error) {
	var all discoveryv1.EndpointSliceList
	err := reader.List(ctx, &all, client.InNamespace(service.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service.Name})
	if err != nil {
		return nil, fmt.Errorf("endpoints of Service %s: %w", service, err)
	}
	var ready []discoveryv1.Endpoint
	seen := make(map[string]bool) // a pod with two address families is in two slices
	for _, slice := range all.Items {
		for _, e := range slice.Endpoints {
			if len(e.Addresses) == 0 || e.Conditions.Ready != nil && !*e.Conditions.Ready {
				continue
			}
			id := e.Addresses[0]
			if e.TargetRef != nil {
				id = string(e.TargetRef.UID) + e.TargetRef.Name
			}
			if !seen[id] {
				seen[id] = true
				ready = append(ready, e)
			}
		}
	}
	return ready, nil
}
