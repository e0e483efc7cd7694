package demo

import (
	"fmt"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
)

// Proxy is what splits the demo's requests.
type Proxy string

// The proxies there are. Embedded and Envoy are those of router Kedify.
const (
	// Embedded is the interceptor's own.
	Embedded Proxy = "embedded"
	// Envoy is kedify-proxy, programmed by the interceptor.
	Envoy Proxy = "envoy"
	// Gateway is the Envoy of the Gateway, programmed by Contour.
	Gateway Proxy = "gateway"
	// Ingress is kedify-proxy behind the Ingress of the guide, which Contour serves.
	Ingress Proxy = "ingress"
)

// ParseProxy reads the name of a proxy of router Kedify.
func ParseProxy(text string) (Proxy, error) {
	switch p := Proxy(text); p {
	case Embedded, Envoy:
		return p, nil
	}
	return "", fmt.Errorf("there is no proxy %q; there are %s and %s", text, Embedded, Envoy)
}

// address is the host:port of the Service that users of router Kedify send requests to.
func (p Proxy) address() string {
	if p == Envoy {
		return "kedify-proxy." + settings[Kedify].namespace + ".svc.cluster.local:8080"
	}
	return "keda-add-ons-http-interceptor-proxy.keda.svc.cluster.local:8080"
}

// settle is how long requests may still be split as before after the demo has seen a
// new split. Contour collects changes for half a second.
func (p Proxy) settle() time.Duration {
	if p == Gateway {
		return 1500 * time.Millisecond
	}
	return time.Second
}

// allows says in words what shares the proxy's way of choosing allows.
func (p Proxy) allows() string {
	if p == Embedded {
		return "± 1 in any 100 requests in a row"
	}
	return "by Envoy's random pick, in 99,999 of 100,000 demos"
}

// judged is how many shares other than 0 and 100 a demo judges at most.
const judged = 10

// demos is a number of demos: in 999 of 1,000 cases all shares of all of them are
// within the bounds. CI runs three demos for each change.
const demos = 100

// check returns an error unless the wanted share of answers is one that the
// proxy's way of choosing gives.
func (p Proxy) check(answers []traffic.Answer, wanted string, share int32) error {
	if p == Embedded {
		return traffic.CheckSmooth(answers, wanted, int(share))
	}
	return traffic.CheckRandom(answers, wanted, int(share), judged*demos)
}
