package deploy_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/proxy"
)

// The programs know that memory is short before the kernel kills their containers: those in
// Go by GOMEMLIMIT, Envoy by its heap limit.
func TestMemoryRunsShortBeforeTheLimit(t *testing.T) {
	short := map[string]int64{"kedify-proxy": maxHeap}
	for _, dir := range []string{"interceptor", "scaler"} {
		for _, variable := range deployment(t, dir).Spec.Template.Spec.Containers[0].Env {
			if variable.Name == "GOMEMLIMIT" {
				quantity := resource.MustParse(strings.TrimSuffix(variable.Value, "B"))
				short[dir] = quantity.Value()
			}
		}
	}
	for _, dir := range []string{"interceptor", "scaler", "kedify-proxy"} {
		limit := deployment(t, dir).Spec.Template.Spec.Containers[0].Resources.Limits.Memory().Value()
		if got := short[dir]; got > limit/10*9 || got < limit/10*8 {
			t.Errorf("%s: memory is short at %d of %d bytes, want nine tenths or a little less", dir, got, limit)
		}
	}
	// The memory of an interceptor with ten thousand objects, as many waiting requests as
	// there is room for, and other connections: tenants that fill the waiting room do not
	// cause new requests to be refused.
	const objects, connections = 200_000_000, 8_000 * 30_000
	if most, short := objects+proxy.DefaultSettings().MaxHeldBytes+connections, short["interceptor"]/10*9; most > short {
		t.Errorf("an interceptor may take %d bytes, and memory is short from %d", most, short)
	}
}

// maxHeap is the heap limit of the bootstraps in deploy, as hack/generate.sh has it.
const maxHeap = 900 << 20

// A pod has the time that its program takes to stop, and more.
func TestTerminationGracePeriods(t *testing.T) {
	interceptor := deployment(t, "interceptor").Spec.Template.Spec
	requireGrace(t, "interceptor", interceptor, seconds(t, interceptor.Containers[0].Args, "drain-delay")+seconds(t, interceptor.Containers[0].Args, "shutdown-timeout"))
	proxy := deployment(t, "kedify-proxy").Spec.Template.Spec
	requireGrace(t, "kedify-proxy", proxy, seconds(t, proxy.Containers[0].Lifecycle.PreStop.Exec.Command, "timeout"))
}

func requireGrace(t *testing.T, name string, pod corev1.PodSpec, stop time.Duration) {
	t.Helper()
	if grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second; grace < stop+5*time.Second {
		t.Errorf("%s stops within %s and has %s", name, stop, grace)
	}
}

// seconds returns the value of a flag.
func seconds(t *testing.T, args []string, flag string) time.Duration {
	t.Helper()
	match := regexp.MustCompile(`(?m)^--` + flag + `=(.+)$`).FindStringSubmatch(strings.Join(args, "\n"))
	if match == nil {
		t.Fatalf("no --%s in %q", flag, args)
	}
	d, err := time.ParseDuration(match[1])
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func deployment(t *testing.T, dir string) appsv1.Deployment {
	t.Helper()
	var d appsv1.Deployment
	read(t, dir+"/deployment.yaml", &d)
	return d
}
