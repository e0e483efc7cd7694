package kedify

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

func TestDecide(t *testing.T) {
	text := func(s string) *string { return &s }
	const written = "- service: s\n  weight: 80\n- service: c\n  weight: 20\n"
	split := []weightedbackends.Backend{{Service: "s", Weight: 80}, {Service: "c", Weight: 20}}
	change := func(value, owner *string) map[string]*string {
		return map[string]*string{weightedbackends.Annotation: value, weightedbackends.OwnerAnnotation: owner}
	}
	tests := map[string]struct {
		now   present
		split []weightedbackends.Backend
		want  map[string]*string
	}{
		"nothing there, nothing wanted":     {},
		"nothing there":                     {split: split, want: change(text(written), text("app"))},
		"as wanted":                         {now: present{text(written), text("app")}, split: split},
		"other weights":                     {now: present{text("- service: s\n  weight: 1\n"), text("app")}, split: split, want: change(text(written), text("app"))},
		"same split in another form":        {now: present{text("[{service: s, weight: 80}, {service: c, weight: 20}]"), text("app")}, split: split, want: change(text(written), text("app"))},
		"malformed":                         {now: present{text("{"), text("app")}, split: split, want: change(text(written), text("app"))},
		"no owner":                          {now: present{text(written), nil}, split: split, want: change(text(written), text("app"))},
		"another owner (that is gone)":      {now: present{text(written), text("old")}, split: split, want: change(text(written), text("app"))},
		"removed":                           {now: present{text(written), text("app")}, want: change(nil, nil)},
		"removed without owner":             {now: present{text(written), nil}, want: change(nil, nil)},
		"owner left behind by another tool": {now: present{nil, text("app")}, want: change(nil, nil)},
		"annotation taken by another tool":  {now: present{nil, text("app")}, split: split, want: change(text(written), text("app"))},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, decide(tc.now, "app", tc.split)); diff != "" {
				t.Errorf("change (-want +got):\n%s", diff)
			}
		})
	}
}
