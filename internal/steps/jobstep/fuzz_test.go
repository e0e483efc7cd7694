package jobstep

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/stepobject"
)

var stepID = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9_-]{0,62}|[0-9]{1,3})$`)

// Whatever a Rollout's author writes, a configuration is refused or makes a Job in the
// Rollout's namespace, owned by the Rollout, with a deadline, a TTL and a name that fits.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(smokeJob), "app", "smoke")
	f.Add([]byte(`{"ttlSecondsAfterFinished": 300, "activeDeadlineSeconds": 9223372036854775807, "template": {"metadata": {"namespace": "x"}, "spec": {"containers": [{"env": [{}]}]}}}`), "a.b", "A-")
	f.Add([]byte(`{"from": "cronjob/e2e", "template": {"spec": {"containers": [{"name": "e2e", "args": ["{{ rollout.name }}"]}, {"$patch": "delete"}]}}, "logLines": 0}`), strings.Repeat("a", 253), strings.Repeat("b", 63))
	f.Fuzz(func(t *testing.T, config []byte, rollout, id string) {
		parsed, err := New(Options{}).Parse(steps.Source{Config: json.RawMessage(config)})
		if err != nil || len(validation.IsDNS1123Subdomain(rollout)) > 0 || !stepID.MatchString(id) {
			return
		}
		s, work := parsed.(*step), workFor(rollout, id)
		var cronJob json.RawMessage
		if s.main.from != "" {
			cronJob = json.RawMessage(cronJobSpec)
		}
		spec, err := s.main.render(t.Context(), steps.Scope(work, nil), cronJob)
		if err != nil {
			return
		}
		job := build(work, stepobject.NameOf(work), spec, nil)
		if job.Namespace != "demo" || len(job.OwnerReferences) != 1 || !stepobject.IsOf(job, work) ||
			*job.Spec.ActiveDeadlineSeconds > 360 || *job.Spec.TTLSecondsAfterFinished < minTTL {
			t.Errorf("%+v", job)
		}
		if len(job.Name) > stepobject.NameLimit || len(validation.IsDNS1123Label(job.Name)) > 0 {
			t.Errorf("name %q", job.Name)
		}
		for label, value := range job.Labels {
			if len(validation.IsValidLabelValue(value)) > 0 {
				t.Errorf("label %s: %q", label, value)
			}
		}
	})
}

// Whatever a Job logs, a message has its last lines as text without control characters.
func FuzzTail(f *testing.F) {
	f.Add("one\ntwo\n", 1, 100)
	f.Add("1234567890", 1, 1)
	f.Add("\x1b[31mred\x1b[0m\r\n\xff", 10, 5)
	f.Add(strings.Repeat("ü", 100), 3, 21)
	f.Fuzz(func(t *testing.T, log string, lines, limit int) {
		lines, limit = 1+max(lines, -lines, 0)%maxLogLines, 8+max(limit, -limit, 0)%inStatus.tail
		tail := tailOf(log, lines, limit)
		if len(tail) > limit || !utf8.ValidString(tail) || strings.Count(tail, "\n") >= lines {
			t.Errorf("%d lines, %d bytes: %q", lines, limit, tail)
		}
		for _, r := range tail {
			if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
				t.Errorf("control character %q in %q", r, tail)
			}
		}
	})
}
