package weightedbackends_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

func TestFormatIsTheContract(t *testing.T) {
	tests := map[string]struct {
		split []weightedbackends.Backend
		want  string
	}{
		"stable and canary": {
			split: []weightedbackends.Backend{{Service: "rollouts-demo-stable", Weight: 80}, {Service: "rollouts-demo-canary", Weight: 20}},
			want:  "- service: rollouts-demo-stable\n  weight: 80\n- service: rollouts-demo-canary\n  weight: 20\n",
		},
		"a weight of 0 is written": {
			split: []weightedbackends.Backend{{Service: "stable", Weight: 0}, {Service: "canary", Weight: 100}},
			want:  "- service: stable\n  weight: 0\n- service: canary\n  weight: 100\n",
		},
		"names that YAML would read as something else are quoted": {
			split: []weightedbackends.Backend{{Service: "null", Weight: 1}, {Service: "true", Weight: 2}, {Service: "y", Weight: 3}},
			want:  "- service: \"null\"\n  weight: 1\n- service: \"true\"\n  weight: 2\n- service: \"y\"\n  weight: 3\n",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, weightedbackends.Format(tc.split)); diff != "" {
				t.Errorf("Format (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzFormat: the text is what the YAML library would write, whatever the names.
func FuzzFormat(f *testing.F) {
	for _, name := range []string{"null", "y", "true", "false", "off", "falsey", "app-stable", "a1e3", "inf", "", "a: b", "- a", "123456", "abc\n"} {
		f.Add(name, int32(20))
	}
	f.Fuzz(func(t *testing.T, name string, weight int32) {
		split := []weightedbackends.Backend{{Service: name, Weight: weight}, {Service: "rollouts-demo-canary", Weight: 1}}
		want, err := yaml.Marshal(split)
		if err != nil {
			t.Skip(err)
		}
		if diff := cmp.Diff(string(want), weightedbackends.Format(split)); diff != "" {
			t.Errorf("Format of %q (-library +got):\n%s", name, diff)
		}
	})
}

func BenchmarkFormat(b *testing.B) {
	split := []weightedbackends.Backend{{Service: "rollouts-demo-stable", Weight: 80}, {Service: "rollouts-demo-canary", Weight: 20}}
	for b.Loop() {
		weightedbackends.Format(split)
	}
}

func TestParse(t *testing.T) {
	tests := map[string]struct {
		value   string
		want    []weightedbackends.Backend
		wantErr string
	}{
		"as written": {
			value: "- service: a\n  weight: 80\n- service: b\n  weight: 20\n",
			want:  []weightedbackends.Backend{{Service: "a", Weight: 80}, {Service: "b", Weight: 20}},
		},
		"flow style, no newline": {value: `[{service: a, weight: 1}]`, want: []weightedbackends.Backend{{Service: "a", Weight: 1}}},
		"weights are relative":   {value: "- {service: a, weight: 1}\n- {service: b, weight: 999}", want: []weightedbackends.Backend{{Service: "a", Weight: 1}, {Service: "b", Weight: 999}}},
		"zero allowed":           {value: "- {service: a, weight: 0}\n- {service: b, weight: 1}", want: []weightedbackends.Backend{{Service: "a"}, {Service: "b", Weight: 1}}},
		"empty":                  {value: "", wantErr: "empty"},
		"empty list":             {value: "[]", wantErr: "empty"},
		"no list":                {value: "service: a", wantErr: "not a YAML list"},
		"malformed":              {value: "- service: [a", wantErr: "not a YAML list"},
		"unknown key":            {value: "- {service: a, weight: 1, wieght: 2}", wantErr: "wieght"},
		"missing service":        {value: "- {weight: 1}", wantErr: "[0].service is missing"},
		"missing weight":         {value: "- {service: a, weight: 1}\n- {service: b}", wantErr: `[1].weight of service "b" is missing`},
		"weight as text":         {value: `- {service: a, weight: "1"}`, wantErr: "not a YAML list"},
		"fraction":               {value: `- {service: a, weight: 1.5}`, wantErr: "not a YAML list"},
		"negative":               {value: "- {service: a, weight: -1}", wantErr: "below 0"},
		"twice":                  {value: "- {service: a, weight: 1}\n- {service: a, weight: 1}", wantErr: "listed twice"},
		"total 0":                {value: "- {service: a, weight: 0}", wantErr: "add up to 0"},
		"total too high":         {value: "- {service: a, weight: 2147483647}\n- {service: b, weight: 1}", wantErr: "add up to 2147483648"},
		"no Service name":        {value: "- {service: a/b, weight: 1}", wantErr: "not a Service name"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := weightedbackends.Parse(tc.value)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("error = %v, want one with %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Parse (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzParse: whatever parses can be written again and reads the same, and
// nothing makes Parse panic.
func FuzzParse(f *testing.F) {
	f.Add("- service: a\n  weight: 80\n- service: b\n  weight: 20\n")
	f.Add("- {service: null, weight: 1}")
	f.Add("&a [*a]")
	f.Add("- service: a\n  weight: 0x10\n")
	f.Fuzz(func(t *testing.T, value string) {
		split, err := weightedbackends.Parse(value)
		if err != nil {
			return
		}
		again, err := weightedbackends.Parse(weightedbackends.Format(split))
		if err != nil {
			t.Fatalf("%q parses, but not what Format makes of it: %v", value, err)
		}
		if diff := cmp.Diff(split, again); diff != "" {
			t.Errorf("split changed by Format and Parse (-first +second):\n%s", diff)
		}
	})
}

func TestDescribe(t *testing.T) {
	if got := weightedbackends.Describe(nil); got != "none" {
		t.Errorf("Describe(nil) = %q", got)
	}
	got := weightedbackends.Describe([]weightedbackends.Backend{{Service: "a", Weight: 80}, {Service: "b", Weight: 20}})
	if got != "a=80,b=20" {
		t.Errorf("Describe = %q", got)
	}
}
