// Command reference makes what docs/reference has from the sources, and the JSON Schemas of
// canary steps for editors.
//
//	go run ./hack/reference
//	go run ./hack/reference step-rollout.schema.json >deploy/schema/step-rollout.schema.json
//	go run ./hack/reference step-preset.schema.json >deploy/schema/step-preset.schema.json
//
// A page has a generated section between two lines, and what is around it is written by hand:
//
//	<!-- generated: NAME -->
//	<!-- end -->
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/settings"
	"github.com/kedify/argo-rollouts-plugin/internal/kubectlcanary/check"
)

// section is a generated part of a page.
type section struct {
	page string
	name string
	make func() (string, error)
}

// sections has every generated part of docs/.
var sections = []section{
	{"docs/reference/check.md", "checks", text(check.Reference)},
	{"docs/reference/settings.md", "interceptor-settings", text(settings.Reference)},
	{"docs/reference/settings.md", "interceptor-settings-without-effect", text(settings.ReferenceWithoutEffect)},
	{"docs/reference/settings.md", "interceptor-bootstrap-flags", flags("newBootstrap", "cmd/interceptor")},
	{"docs/reference/settings.md", "interceptor-drain-flags", flags("newDrain", "cmd/interceptor")},
	{"docs/reference/settings.md", "scaler-flags", flags("newServe", "cmd/scaler")},
	{"docs/reference/settings.md", "agent-flags", flags("newServe", "cmd/agent")},
	{"docs/reference/kedify.md", "kedify-flags", flags("AddTo Command", plugin)},
	{"docs/reference/gatewayapi.md", "gatewayapi-flags", flags("AddTo Command command", plugin, "cmd/rollouts-plugin-gatewayapi")},
	{"docs/reference/steps.md", "step-flags", flags("AddTo", "internal/steps/registration", plugin)},
	{"docs/reference/steps.md", "step-keys", func() (string, error) { return stepKeys(".") }},
	{"docs/reference/metrics.md", "metrics-interceptor", metrics("internal/interceptor/proxy", "cmd/interceptor", "internal/interceptor/usage",
		"internal/interceptor/watch", "internal/interceptor/withdrawal", "internal/interceptor/events", "internal/interceptor/xds")},
	{"docs/reference/metrics.md", "metrics-scaler", metrics("internal/scaler/server")},
	{"docs/reference/events.md", "events-interceptor", events("internal/interceptor/routes", "internal/interceptor/watch", "internal/interceptor/xds", "internal/interceptor/proxy")},
	{"docs/reference/events.md", "events-agent", events("internal/agent/objects", "internal/agent/ingress", "internal/agent/kedifyproxy")},
	{"docs/reference/events.md", "events-kedify", events("internal/trafficrouter", "internal/trafficrouter/kedify")},
	{"docs/reference/events.md", "events-gatewayapi", events("internal/trafficrouter", "internal/trafficrouter/gatewayapi")},
	{"docs/reference/events.md", "events-step", events("internal/steps", "internal/steps/presetsource")},
	{"docs/reference/permissions.md", "permissions-kedify", permissions("deploy/rbac/clusterrole.yaml", "deploy/rbac-minimal/role.yaml")},
	{"docs/reference/permissions.md", "permissions-gatewayapi", permissions("deploy/gatewayapi/clusterrole.yaml")},
	{"docs/reference/permissions.md", "permissions-step", permissions("deploy/rbac-step/every-kind.yaml", "deploy/rbac-step/http.yaml", "deploy/rbac-step/job.yaml",
		"deploy/rbac-step/resource.yaml", "deploy/rbac-step/rollouts.yaml", "deploy/rbac-regions/secrets.yaml", "deploy/rbac-regions/region.yaml")},
	{"docs/reference/permissions.md", "permissions-interceptor", permissions("deploy/interceptor/clusterrole.yaml", "deploy/scaler/clusterrole.yaml", "deploy/kedify-proxy/serviceaccount.yaml")},
	{"docs/reference/permissions.md", "permissions-agent", permissions("deploy/agent/clusterrole.yaml", "deploy/agent-uninstall/clusterrole.yaml")},
	{"docs/reference/permissions.md", "permissions-agent-namespace", permissions("deploy/agent/role.yaml", "deploy/agent-uninstall/role.yaml")},
}

// plugin has the flags that all plugins have.
const plugin = "internal/rolloutsplugin"

// text is for a section that is made without an error.
func text(f func() string) func() (string, error) {
	return func() (string, error) { return f(), nil }
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "reference: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 0 {
		if schemas[args[0]] == nil {
			return fmt.Errorf("there is no schema %s", args[0])
		}
		schema, err := makeSchema(".", args[0])
		if err == nil {
			_, err = os.Stdout.Write(schema)
		}
		return err
	}
	for _, s := range sections {
		made, err := s.make()
		if err == nil {
			err = replace(s.page, s.name, made)
		}
		if err != nil {
			return fmt.Errorf("%s, section %s: %w", s.page, s.name, err)
		}
	}
	return nil
}

// generated is a section with the lines around it.
func generated(name, made string) string {
	return begin(name) + "\n" + strings.TrimSpace(made) + "\n\n" + end
}

func begin(name string) string { return "<!-- generated: " + name + " -->\n" }

const end = "<!-- end -->\n"

// replace puts the text between the lines that begin and end a section of a page.
func replace(file, name, made string) error {
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, after, found := strings.Cut(string(page), begin(name))
	_, after, ends := strings.Cut(after, end)
	if !found || !ends {
		return fmt.Errorf("the page needs the lines %q and %q", strings.TrimSpace(begin(name)), strings.TrimSpace(end))
	}
	return os.WriteFile(file, []byte(before+generated(name, made)+after), 0o644)
}
