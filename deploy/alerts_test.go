package deploy_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/docstest"
)

// prometheusRule has the fields of a PrometheusRule that the alerts use.
type prometheusRule struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ObjectMeta `json:"metadata"`
	Spec            struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []struct {
				Alert       string                    `json:"alert"`
				Expr        string                    `json:"expr"`
				For         string                    `json:"for"`
				Labels      struct{ Severity string } `json:"labels"`
				Annotations struct {
					Summary    string `json:"summary"`
					RunbookURL string `json:"runbook_url"`
				} `json:"annotations"`
			} `json:"rules"`
		} `json:"groups"`
	} `json:"spec"`
}

// Each alert uses metrics and labels that there are, and has a runbook.
func TestAlerts(t *testing.T) {
	const runbooks = "https://github.com/kedify/argo-rollouts-plugin/blob/main/docs/how-to/troubleshooting.md#"
	var rule prometheusRule
	if err := yaml.UnmarshalStrict([]byte(readText(t, "components/alerts/prometheusrule.yaml")), &rule); err != nil {
		t.Fatal(err)
	}
	equal(t, "kind", "monitoring.coreos.com/v1 PrometheusRule", rule.APIVersion+" "+rule.Kind)
	// The table is compared with /metrics where the metrics are made.
	metrics := make(map[string]string)
	for _, row := range regexp.MustCompile("(?m)^\\| `(interceptor_\\w+)` \\| ([^|]*?) ?\\|").FindAllStringSubmatch(docstest.Read(t, "docs/reference/metrics.md"), -1) {
		metrics[row[1]] = row[2]
	}
	pages := docstest.Read(t, "docs/how-to/troubleshooting.md")
	metric, label := regexp.MustCompile(`\binterceptor_\w+`), regexp.MustCompile(`(\w+)=~?"`)
	named := make(map[string]bool)
	for _, group := range rule.Spec.Groups {
		for _, r := range group.Rules {
			if named[r.Alert] {
				t.Errorf("%s is there twice", r.Alert)
			}
			named[r.Alert] = true
			labels := ""
			used := metric.FindAllString(r.Expr, -1)
			for _, name := range used {
				if _, is := metrics[name]; !is {
					t.Errorf("%s: there is no metric %s", r.Alert, name)
				}
				labels += metrics[name]
			}
			if len(used) == 0 {
				t.Errorf("%s uses no metric: %s", r.Alert, r.Expr)
			}
			for _, match := range label.FindAllStringSubmatch(r.Expr, -1) {
				if !strings.Contains(labels, "`"+match[1]+"`") {
					t.Errorf("%s: no metric of it has a label %s", r.Alert, match[1])
				}
			}
			if _, err := time.ParseDuration(r.For); r.For != "" && err != nil {
				t.Errorf("%s: %v", r.Alert, err)
			}
			if s := r.Labels.Severity; s != "warning" && s != "critical" {
				t.Errorf("%s has severity %q", r.Alert, s)
			}
			if !strings.HasSuffix(r.Annotations.Summary, ".") {
				t.Errorf("%s has no summary: %q", r.Alert, r.Annotations.Summary)
			}
			equal(t, r.Alert+": runbook", runbooks+strings.ToLower(r.Alert), r.Annotations.RunbookURL)
			if !strings.Contains(pages, "\n### "+r.Alert+"\n") {
				t.Errorf("troubleshooting.md has no section %s", r.Alert)
			}
		}
	}
	for _, section := range regexp.MustCompile(`(?m)^### (Interceptor\w+)$`).FindAllStringSubmatch(pages, -1) {
		if !named[section[1]] {
			t.Errorf("troubleshooting.md has a section %s, and there is no such alert", section[1])
		}
	}
}
