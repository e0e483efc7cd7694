package addon

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSelect(t *testing.T) {
	all := []Addon{
		{Name: "app", Default: true, Needs: []string{"base"}},
		{Name: "base"},
		{Name: "gateway", Needs: []string{"base", "proxy"}},
		{Name: "proxy", After: []string{"definitions"}},
		{Name: "definitions"},
		{Name: "this", Needs: []string{"that"}},
		{Name: "that", Needs: []string{"this"}},
		{Name: "broken", Needs: []string{"nothing"}},
	}
	for name, tc := range map[string]struct {
		with []string
		bare bool
		want string
		err  string
	}{
		"by default":      {want: "base app"},
		"one more":        {with: []string{"gateway"}, want: "base app proxy gateway"},
		"twice":           {with: []string{"proxy", "app", "proxy"}, want: "base app proxy"},
		"bare":            {bare: true},
		"bare, with one":  {bare: true, with: []string{"gateway"}, want: "base proxy gateway"},
		"after, if asked": {bare: true, with: []string{"proxy", "definitions"}, want: "definitions proxy"},
		"in a circle":     {bare: true, with: []string{"this"}, want: "that this"},
		"unknown":         {with: []string{"contuor"}, err: `no add-on "contuor"; there are: app, base, gateway`},
		"needs unknown":   {with: []string{"broken"}, err: `add-on broken: no add-on "nothing"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Select(all, tc.with, tc.bare)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("%v, want an error with %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, strings.Join(Names(got), " ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
