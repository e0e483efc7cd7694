package install

import (
	"bufio"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/e2etest"
)

// installInterceptor runs the commands of docs/interceptor.md that install it.
func installInterceptor(t *testing.T) {
	t.Helper()
	e2etest.Shell(t, "kubectl apply -k deploy/crds")
	e2etest.Shell(t, "kubectl apply -k deploy/interceptor")
	says(t, "kubectl -n keda rollout status deploy/keda-add-ons-http-interceptor --timeout 110s", "successfully rolled out")
}

// requireProxiesAnswer sends requests to both proxies as the guide does with curl,
// at a weight of 20: so many that Envoy's random pick leaves neither version out.
func requireProxiesAnswer(t *testing.T) {
	t.Helper()
	const requests = 100
	for _, address := range []string{"keda-add-ons-http-interceptor-proxy.keda.svc.cluster.local:8080", "kedify-proxy.rollouts-demo.svc.cluster.local:8080"} {
		colours := map[string]int{}
		for range requests {
			colours[get(t, "http://"+address+"/color", "rollouts-demo.example.com")]++
		}
		if colours[`"blue"`] == 0 || colours[`"yellow"`] == 0 || colours[`"blue"`]+colours[`"yellow"`] != requests {
			t.Errorf("%d requests to %s: %v", requests, address, colours)
		}
	}
}

// requireWeightedClusters looks for the clusters in kedify-proxy's configuration,
// as the guide does with curl and grep.
func requireWeightedClusters(t *testing.T) {
	t.Helper()
	forward(t, "kubectl -n rollouts-demo port-forward svc/kedify-proxy-admin 9901:9901")
	dump := get(t, "http://localhost:9901/config_dump", "")
	var names strings.Builder
	for line := range strings.Lines(dump) {
		if regexp.MustCompile(`"name": "[^"]*rollouts-demo`).MatchString(line) {
			names.WriteString(line)
		}
	}
	for _, service := range []string{"rollouts-demo-stable", "rollouts-demo-canary"} {
		if want := `"name": "rollouts-demo/rollouts-demo/` + service + `"`; !strings.Contains(names.String(), want) {
			t.Errorf("config_dump has no %s in:\n%s", want, names.String())
		}
	}
}

// lookAtProxies runs the commands of docs/interceptor.md and docs/troubleshooting.md
// that show what the proxies serve.
func lookAtProxies(t *testing.T) {
	t.Helper()
	forward(t, "kubectl -n keda port-forward svc/keda-add-ons-http-interceptor-admin 9090:9090")
	says(t, "interceptor routes", "rollouts-demo-stable", "rollouts-demo-canary")
	says(t, "kubectl -n rollouts-demo describe httpso rollouts-demo", "weighted-backends")
	says(t, "kubectl -n rollouts-demo logs deploy/kedify-proxy --container envoy", "starting main dispatch loop")
	says(t, "kubectl -n keda logs -l app.kubernetes.io/name=keda-add-ons-http-interceptor --prefix --tail=-1", "routes read")
}

// get returns the body of an answer, whose status has to be 200.
func get(t *testing.T, url, host string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = host
	request.Close = true // an idle connection would hold up the end of an Envoy
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s for %s: %s %q (%v)", url, host, response.Status, body, err)
	}
	return string(body)
}

// forward runs a port-forward until the test ends, and waits until it listens.
func forward(t *testing.T, line string) {
	t.Helper()
	words := strings.Fields(line)
	cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // an error, as the command is killed
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "Forwarding from") {
			go func() { _, _ = io.Copy(io.Discard, stdout) }()
			return
		}
	}
	t.Fatalf("%s: it ends without forwarding (%v)", line, lines.Err())
}
