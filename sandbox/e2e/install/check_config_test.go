package install

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/checktest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/controllertest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// The check finds each fault of the registration, and that the controller has not read
// the ConfigMap since it changed.
func TestCheckConfig(t *testing.T) {
	outer := e2etest.NewNamespace(t)
	checktest.DeploySample(t, outer)
	good := controllertest.KeepConfig(t)
	args := []string{checktest.Sample, "-n", outer.Name}
	checktest.AwaitHealthy(t, args...)

	const configMap = "ConfigMap argo-rollouts-config"
	replace := func(old, now string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("no %q in:\n%s", old, good)
		}
		return strings.ReplaceAll(good, old, now)
	}
	sum := controllertest.SHA256.FindString(good)
	// The platform of the node, and a different one.
	platform, foreign := "linux-"+runtime.GOARCH, "linux-arm64"
	if platform == foreign {
		foreign = "linux-amd64"
	}
	slashed := func(platform string) string { return strings.ReplaceAll(platform, "-", "/") }
	darwin := "darwin-" + runtime.GOARCH
	for _, tc := range []struct {
		name    string
		plugins string
		check   string
		status  string
		message string
		remedy  string
		args    []string
		also    []string
	}{
		{name: "not registered", plugins: "", check: "plugin-registered", status: checktest.Failure, message: "kedify/http is not registered", remedy: "add the entry"},
		{name: "another plugin only", plugins: replace("kedify/http", "argoproj-labs/gatewayAPI"), check: "plugin-registered", status: checktest.Failure, message: "kedify/http is not registered"},
		{name: "wrong name", plugins: replace("kedify/http", "kedify/HTTP"), check: "plugin-registered", status: checktest.Failure, message: `there is "kedify/HTTP"`, remedy: "name it kedify/http"},
		{name: "name without namespace", plugins: replace("kedify/http", "kedify-http"), check: "plugin-registered", status: checktest.Failure, message: `"kedify-http"`, remedy: "kedify/http"},
		{name: "listed twice", plugins: good + good, check: "plugin-registered", status: checktest.Failure, message: "is listed 2 times", remedy: "keep one entry"},
		{name: "malformed YAML", plugins: "- name: kedify/http\n location: [\n", check: "plugin-registered", status: checktest.Failure, message: "is not a YAML list of plugins", remedy: "correct it"},
		{name: "no list", plugins: "name: kedify/http\n", check: "plugin-registered", status: checktest.Failure, message: "is not a YAML list of plugins"},
		{name: "unknown key", plugins: good + "  sha: abc\n", check: "plugin-registered", status: checktest.Warning, message: "keys that Argo Rollouts ignores"},
		{name: "sha256 too short", plugins: replace(sum, sum[:63]), check: "plugin-location", status: checktest.Failure, message: "is not 64 hexadecimal digits in small letters", remedy: "checksums.txt"},
		{name: "sha256 in capitals", plugins: replace(sum, strings.ToUpper(sum)), check: "plugin-location", status: checktest.Failure, message: "in small letters"},
		{name: "sha256 missing", plugins: "- name: kedify/http\n  location: " + controllertest.PluginURL + "\n", check: "plugin-location", status: checktest.Warning, message: "sha256 is not set"},
		{name: "location missing", plugins: "- name: kedify/http\n  sha256: " + sum + "\n", check: "plugin-location", status: checktest.Failure, message: "is no URL"},
		{name: "location of another scheme", plugins: replace("http://", "oci://"), check: "plugin-location", status: checktest.Failure, message: "http, https or file"},
		{name: "asset of another architecture", plugins: replace(platform, foreign), check: "plugin-platform", status: checktest.Failure, message: "location says " + slashed(foreign) + ", the controller's node sandbox is " + slashed(platform), remedy: platform},
		{name: "asset of another system", plugins: replace(platform, darwin), check: "plugin-platform", status: checktest.Failure, message: "location says " + slashed(darwin)},
		{name: "file onto itself", plugins: "- name: kedify/http\n  location: file:///home/argo-rollouts/plugin-bin/kedify/http\n", check: "plugin-location", status: checktest.Failure, message: "truncates it", remedy: "write elsewhere"},
		{name: "file with sha256", plugins: "- name: kedify/http\n  location: file:///home/argo-rollouts/plugin-bin/elsewhere\n  sha256: " + sum + "\n", check: "plugin-location", status: checktest.Warning, message: "does not compare it"},
		{name: "download of another file", plugins: replace(sum, controllertest.OtherSHA256), check: "plugin-download", status: checktest.Failure, message: "its sha256 is " + sum, remedy: "checksums.txt", args: []string{"--download"}},
		{name: "download of nothing", plugins: replace(controllertest.PluginURL, controllertest.PluginURL+"-v2"), check: "plugin-download", status: checktest.Failure, message: "404", remedy: "correct location", args: []string{"--download"}},
		{name: "download from a host that is not there", plugins: replace("releases.sandbox", "github.invalid"), check: "plugin-download", status: checktest.Warning, message: "cannot be fetched from here", remedy: "mirror", args: []string{"--download"}},
		{name: "changed after the start", plugins: good, check: "controller-restarted", status: checktest.Failure, message: "reads it only at its start", remedy: controllertest.RestartCommand},
	} {
		t.Run(tc.name, func(t *testing.T) {
			controllertest.SetPlugins(t, tc.plugins)
			checktest.Fault{
				Name: tc.name, Make: func() {}, Args: tc.args,
				Want: []checktest.Finding{{Check: tc.check, Status: tc.status, Message: tc.message, Remedy: tc.remedy}},
				Also: append(tc.also, "controller-restarted"),
			}.FindOnly(t, args...)
		})
	}

	t.Run("credentials in the location", func(t *testing.T) {
		controllertest.SetPlugins(t, replace("http://", "http://robot:s3cret@"))
		report := checktest.Fault{
			Name: "credentials", Make: func() {}, Args: []string{"--download"}, Also: []string{"controller-restarted"},
			Want: []checktest.Finding{{Check: "plugin-location", Status: checktest.Warning, Message: "carries credentials", Remedy: "headersFrom"}},
		}.FindOnly(t, args...)
		if printed := fmt.Sprint(report); !strings.Contains(printed, "http://***@"+cluster.ReleasesHost) || strings.Contains(printed, "robot") || strings.Contains(printed, "s3cret") {
			t.Errorf("the report prints credentials, or hides the location:\n%s", printed)
		}
	})

	t.Run("registered in the wrong list", func(t *testing.T) {
		controllertest.SetConfig(t, `{"trafficRouterPlugins":null,"stepPlugins":`+controllertest.QuoteJSON(t, good)+`}`)
		defer controllertest.SetConfig(t, `{"stepPlugins":null,"trafficRouterPlugins":`+controllertest.QuoteJSON(t, good)+`}`)
		checktest.Fault{
			Name: "wrong list", Make: func() {}, Also: []string{"controller-restarted"},
			Want: []checktest.Finding{{Check: "plugin-registered", Status: checktest.Failure, Object: configMap, Message: "under data.stepPlugins", Remedy: "move the entry"}},
		}.FindOnly(t, args...)
	})

	t.Run("ConfigMap missing", func(t *testing.T) {
		e2etest.Shell(t, "kubectl -n argo-rollouts delete configmap argo-rollouts-config")
		defer e2etest.Shell(t, "kubectl -n argo-rollouts create configmap argo-rollouts-config")
		checktest.Fault{
			Name: "missing", Make: func() {},
			Want: []checktest.Finding{{Check: "plugin-registered", Status: checktest.Failure, Object: configMap, Message: "does not exist", Remedy: "install-<os>-<arch>.yaml"}},
		}.FindOnly(t, args...)
	})

	controllertest.SetPlugins(t, good)
	controllertest.Restart(t)
	checktest.AwaitHealthy(t, args...)
}
