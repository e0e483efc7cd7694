package httpstep

import (
	"slices"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

const (
	withToken = "{valueFrom: {secretKeyRef: {namespace: argo-rollouts, name: ci, key: token}}}"
	ownToken  = "{valueFrom: {secretKeyRef: {name: ci, key: token}}}"
)

func TestUnlocked(t *testing.T) {
	const request = "defaults: {request: {url: 'https://ci.example.com', auth: {bearer: " + withToken + "}}}\n"
	for name, tc := range map[string]struct{ preset, want string }{
		"nothing locked":          {request, "request find poll cancel onAbort"},
		"one forgotten":           {request + "locked: [request, find, poll, cancel]", "onAbort"},
		"URLs":                    {request + "locked: [request.url, find.url, poll.url, cancel.url, onAbort]", ""},
		"a body alone":            {request + "locked: [request.json, find, poll, cancel, onAbort]", "request"},
		"everything":              {request + "locked: ['*']", ""},
		"a header, for one alone": {"defaults: {request: {url: 'https://ci.example.com', headers: {X-Token: " + withToken + "}}}\nlocked: [poll]", "request"},
		"a URL":                   {"defaults: {cancel: {url: " + withToken + "}}", "cancel"},
		"a Secret of the Rollout": {strings.Replace(request, withToken, ownToken, 1), ""},
		"no preset":               {"{}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			preset, err := steps.ReadPreset([]byte(tc.preset))
			if err != nil {
				t.Fatal(err)
			}
			if got := Unlocked(preset); !slices.Equal(got, strings.Fields(tc.want)) {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
