package controllertest

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/plugin"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// PluginURL is the URL from which the controller downloads the plugin, as the sandbox's
// ConfigMap says.
const PluginURL = "http://" + cluster.ReleasesHost + "/" + plugin.Asset

// OtherSHA256 is a SHA-256, but not the plugin's.
const OtherSHA256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// SHA256 matches the SHA-256 that an entry of the ConfigMap pins.
var SHA256 = regexp.MustCompile(`[0-9a-f]{64}`)

// Lists of plugins in the controller's ConfigMap.
const (
	routers = "trafficRouterPlugins"
	steps   = "stepPlugins"
)

// Config returns the list of traffic router plugins in the controller's ConfigMap, as
// YAML: in the sandbox the one entry kedify/http.
func Config(t testing.TB) string {
	t.Helper()
	return list(t, routers)
}

func list(t testing.TB, key string) string {
	t.Helper()
	c := e2etest.Connect(t)
	configMap, err := c.Kube.CoreV1().ConfigMaps(e2etest.ControllerNamespace).Get(t.Context(), e2etest.ControllerConfigMap, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return configMap.Data[key]
}

// SetConfig changes the data of the ConfigMap by a merge patch of JSON.
func SetConfig(t testing.TB, data string) {
	t.Helper()
	if err := trySetConfig(t.Context(), e2etest.Connect(t), data); err != nil {
		t.Fatal(err)
	}
}

func trySetConfig(ctx context.Context, c *e2etest.Cluster, data string) error {
	_, err := c.Kube.CoreV1().ConfigMaps(e2etest.ControllerNamespace).
		Patch(ctx, e2etest.ControllerConfigMap, types.MergePatchType, []byte(`{"data":`+data+`}`), metav1.PatchOptions{FieldManager: "e2e"})
	return err
}

// SetPlugins replaces the list of traffic router plugins, which is YAML.
func SetPlugins(t testing.TB, list string) {
	t.Helper()
	SetConfig(t, data(t, routers, list))
}

// SetStepPlugins replaces the list of step plugins, which is YAML.
func SetStepPlugins(t testing.TB, list string) {
	t.Helper()
	SetConfig(t, data(t, steps, list))
}

func data(t testing.TB, key, list string) string {
	t.Helper()
	return `{"` + key + `":` + QuoteJSON(t, list) + `}`
}

// KeepConfig puts the list of traffic router plugins back, and restarts the
// controller, when the test ends, unless the test has done both; it returns the list.
func KeepConfig(t testing.TB) string {
	t.Helper()
	return keep(t, routers, "kedify/http")
}

// KeepStepPlugins is KeepConfig for the list of step plugins.
func KeepStepPlugins(t testing.TB) string {
	t.Helper()
	return keep(t, steps, "kedify/step")
}

// keep is KeepConfig for the list under a key, which has to contain registered.
func keep(t testing.TB, key, registered string) string {
	t.Helper()
	before := list(t, key)
	if !strings.Contains(before, registered) {
		t.Fatalf("the cluster is not as it should be; the ConfigMap holds:\n%s", before)
	}
	c := e2etest.Connect(t)
	PutBack(t, "putting the ConfigMap back", func(ctx context.Context) error {
		configMap, err := c.Kube.CoreV1().ConfigMaps(e2etest.ControllerNamespace).Get(ctx, e2etest.ControllerConfigMap, metav1.GetOptions{})
		if err == nil && configMap.Data[key] == before && !t.Failed() {
			return nil // the test has put it back, and restarted the controller
		}
		err = errors.Join(err, trySetConfig(ctx, c, data(t, key, before)))
		return errors.Join(err, restart(ctx))
	})
	return before
}

// QuoteJSON returns a text as a string of JSON.
func QuoteJSON(t testing.TB, text string) string {
	t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(quoted)
}
