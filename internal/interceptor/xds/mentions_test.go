package xds

import "testing"

func TestMentions(t *testing.T) {
	const name = "demo/app/app"
	for text, want := range map[string]bool{
		"":                                 false,
		"Error adding cluster(s) another":  false,
		"demo/app/app":                     true,
		"demo/app/app: bad":                true,
		"cluster(s) demo/app/app, b":       true,
		"the end is demo/app/app.":         true,
		"demo/app/app...":                  true,
		"demo/app/app-canary":              false,
		"demo/app/app.canary":              false,
		"demo/app/app-canary demo/app/app": true,
		"other-demo/app/app":               false,
		"other-demo/app/app demo/app/app":  true,
		"demo/app/appdemo/app/app":         false,
		"'demo/app/app'":                   true,
	} {
		if got := mentions(text, name); got != want {
			t.Errorf("mentions(%q) = %v", text, got)
		}
	}
}
