package e2etest

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// Answer is what came of a request over HTTP.
type Answer struct {
	Status int
	Body   string
	// Pod is the pod that has answered, if it runs the sandbox's rollouts-demo.
	Pod string
}

// Ask sends a GET request for a host, or for that of the URL if host is empty. It makes a
// connection of its own, for which a Service chooses a pod anew.
func Ask(ctx context.Context, url, host string) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*Patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Answer{}, err
	}
	request.Host = host
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return Answer{response.StatusCode, string(body), response.Header.Get("X-Pod")}, err
}

// Get is Ask for the body of an answer whose status has to be 200.
func Get(ctx context.Context, url, host string) (string, error) {
	answer, err := Ask(ctx, url, host)
	if err == nil && answer.Status != http.StatusOK {
		err = fmt.Errorf("%s: status %d: %.1000s", url, answer.Status, answer.Body)
	}
	return answer.Body, err
}
