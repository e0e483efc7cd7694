package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/docstest"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/events"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/freeport"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/proxy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/watch"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/withdrawal"
)

var (
	// description matches the text of a prometheus.Desc.
	description = regexp.MustCompile(`fqName: "(interceptor_[^"]*)", help: "([^"]*)", .*variableLabels: \{([^}]*)\}`)
	// documented matches a row of the table of metrics in the docs.
	documented = regexp.MustCompile("(?m)^\\| `(interceptor_\\w+)` \\| ([^|]*?) ?\\|")
)

// Dashboards and alerts are made of these names and labels: the docs list all of them,
// and no others.
func TestMetricsAreThoseOfTheDocs(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	config := &rest.Config{Host: "http://127.0.0.1:1"}
	o := defaultSettings(t)
	p := proxy.New(o.Proxy, log)
	x, err := newXDS(o, p.Loads(), log, nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := watch.New(config, watch.Options{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	recorder, err := events.New(config, log)
	if err != nil {
		t.Fatal(err)
	}
	registry := newRegistry(p, x, w, recorder, newFallback(types.NamespacedName{}, log, nil), withdrawal.New(withdrawal.Options{}), nil)
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		registry.Describe(descs)
	}()
	made, listed := make(map[string]string), make(map[string]string)
	for desc := range descs {
		if found := description.FindStringSubmatch(desc.String()); found != nil {
			if made[found[1]] = found[3]; found[2] == "" {
				t.Errorf("%s says nothing for people", found[1])
			}
		}
	}
	for _, row := range documented.FindAllStringSubmatch(docstest.Read(t, "docs/reference/metrics.md"), -1) {
		listed[row[1]] = strings.NewReplacer("`", "", " ", "").Replace(row[2])
	}
	if diff := cmp.Diff(listed, made); diff != "" {
		t.Errorf("metrics and their labels (-docs +made):\n%s", diff)
	}
}

// A running interceptor tells when its certificates expire, also of a renewed one, and
// how near it is to its limits.
func TestMetricsOfARunningInterceptor(t *testing.T) {
	a := newAuthority(t, "authority")
	expires := func(name string, certificate []byte) string {
		parsed, err := x509.ParseCertificate(certificate)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("interceptor_certificate_expiration_timestamp_seconds{certificate=%q} %v\n", name, float64(parsed.NotAfter.Unix()))
	}
	// The authority's own certificate expires later than those that it signs.
	certFile, keyFile := a.files("app", &tls.Certificate{Certificate: [][]byte{a.certificate.Raw}, PrivateKey: a.key})
	ofXDS := a.sign("interceptor", ecdsaKey(t))
	xdsCert, xdsKey := a.files("interceptor", ofXDS)
	tlsPort := uint16(0)
	freeport.Set(t, &tlsPort)
	_, of, out := started(t, "--tls-cert-file="+certFile, "--tls-key-file="+keyFile, fmt.Sprintf("--tls-port=%d", tlsPort),
		"--xds-cert-file="+xdsCert, "--xds-key-file="+xdsKey, "--xds-client-ca-file="+a.file("ca.crt"), "--max-connections=7")
	serves := func(lines ...string) {
		t.Helper()
		eventually(t, strings.Join(lines, ""), out, func() bool {
			response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", of["metrics-port"]))
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			text, err := io.ReadAll(response.Body)
			return err == nil && !slices.ContainsFunc(lines, func(line string) bool { return !strings.Contains(string(text), line) })
		})
	}
	serves(expires("proxy", a.certificate.Raw), expires("xds", ofXDS.Certificate[0]),
		"interceptor_limit_used{limit=\"max-connections\"} 0\n", "interceptor_limit_max{limit=\"max-connections\"} 7\n")
	renewed := a.sign("renewed", ecdsaKey(t))
	a.files("app", renewed)
	serves(expires("proxy", renewed.Certificate[0]))
}
