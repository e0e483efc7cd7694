package check

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
)

func TestLocationsAreShownWithoutCredentials(t *testing.T) {
	for location, want := range map[string]string{
		"https://example.com/plugin":                       "https://example.com/plugin",
		"https://example.com/team@v1/plugin":               "https://example.com/team@v1/plugin",
		"https://robot:s3cret@example.com/plugin":          "https://***@example.com/plugin",
		"https://robot:s3cret@example.com/team@v1/plugin":  "https://***@example.com/team@v1/plugin",
		"https://s3cret@example.com/plugin":                "https://***@example.com/plugin",
		"https://robot:s3%40cret@example.com/plugin":       "https://***@example.com/plugin",
		"https://robot:s3@cret@example.com/plugin":         "https://***@example.com/plugin",
		"https://robot:s3/cret@example.com/plugin":         "https://***@example.com/plugin",
		"https://robot:s3 cret@example.com/plugin":         "https://***@example.com/plugin",
		"https://robot:s3?cret@example.com/plugin":         "https://***@example.com/plugin",
		"https://robot:5?3@example.com/plugin":             "https://***@example.com/plugin",
		"https://robot:s3%zzcret@example.com/plugin":       "https://***@example.com/plugin",
		"robot:s3cret@example.com/plugin":                  "***@example.com/plugin",
		"https://example.com/plugin?token=s3cret":          "https://example.com/plugin?***",
		"https://robot:s3cret@example.com/plugin?X-Sig=ab": "https://***@example.com/plugin?***",
		"https://example.com/plugin?":                      "https://example.com/plugin?",
		"file:///home/argo-rollouts/plugin":                "file:///home/argo-rollouts/plugin",
		"file:///home/team@v1/plugin":                      "file:///home/team@v1/plugin",
		"https:///robot:s3cret@example.com/plugin":         "https://***@example.com/plugin",
		"": "",
	} {
		if got := withoutCredentials(location); got != want {
			t.Errorf("%q is shown as %q, want %q", location, got, want)
		}
	}
}

// Whatever is wrong with a location or its download, no report contains the location's
// credentials, in text or in JSON.
func TestNoReportPrintsCredentials(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/redirects"):
			// As object stores do: to a signed URL, here one at which nothing listens.
			http.Redirect(w, r, "http://robot:s3cret@127.0.0.1:1/file?X-Signature=s3cret", http.StatusFound)
		case strings.HasPrefix(r.URL.Path, "/absent"):
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	at := strings.Replace(server.URL, "http://", "http://robot:s3cret@", 1)
	none := func(*snapshot) {}
	for name, c := range map[string]struct {
		location string
		also     func(s *snapshot)
		shows    string
	}{
		"served":               {at + "/rollouts-plugin-kedify-linux-amd64", none, "http://***@127.0.0.1"},
		"not there":            {at + "/absent", none, "404"},
		"redirected":           {at + "/redirects", none, "cannot be fetched from here"},
		"nobody listens":       {"http://robot:s3cret@127.0.0.1:1/plugin?token=s3cret", none, "cannot be fetched from here"},
		"name of the platform": {"https://robot:s3cret@example.invalid/plugin?token=s3cret", none, "carries credentials"},
		"web page":             {"https://robot:s3cret@example.invalid/releases/tag/v1", none, "carries credentials"},
		"no host":              {"https:///robot:s3cret@example.invalid/?token=s3cret", none, ""},
		"another scheme":       {"s3://robot:s3cret@bucket/plugin", none, "Argo Rollouts takes: http, https or file"},
		"file":                 {"file://robot:s3cret@/home/argo-rollouts/plugin-bin/kedify/http", none, ""},
		"no URL":               {"https://robot:s3cret%zz@example.invalid/plugin", none, "is no URL"},
		"no URL, by a slash":   {"https://robot:s3cret/s3cret@example.invalid/plugin", none, "is no URL"},
		"no URL, by spaces":    {"https://robot:s3cret  s3cret@example.invalid/plugin", none, "is no URL"},
		"no URL at all":        {"robot:s3cret@example.invalid/plugin", none, ""},
		"broken list": {"https://example.com/plugin", func(s *snapshot) {
			s.configData()[trafficRouterPlugins] = "- name: kedify/http\n  location: [https://robot:s3cret@example.invalid/plugin]\n"
		}, "is not a YAML list"},
		"Event": {"https://robot:s3cret@example.com/rollouts-plugin-kedify-linux-amd64", func(s *snapshot) {
			s.demo().Status.Phase = v1alpha1.RolloutPhaseDegraded
			s.demo().Status.Message = "plugin of https://robot:s3cret@example.com/rollouts-plugin-kedify-linux-amd64 ended"
		}, "***@example.com/rollouts-plugin-kedify-linux-amd64 ended"},
	} {
		t.Run(name, func(t *testing.T) {
			s := healthy()
			s.configData()[trafficRouterPlugins] = fmt.Sprintf("- {name: kedify/http, location: %q, sha256: %q}", c.location, sum)
			c.also(&s)
			gatherDownloads(t.Context(), nil, s.controller, s.plugins)
			report := Report{Results: look(s)}
			var text, json bytes.Buffer
			if err := errors.Join(report.WriteText(&text), report.WriteJSON(&json)); err != nil {
				t.Fatal(err)
			}
			for form, printed := range map[string]string{"text": text.String(), "JSON": json.String()} {
				for _, secret := range []string{"s3cret", "robot", base64.StdEncoding.EncodeToString([]byte("robot:s3cret"))} {
					if strings.Contains(printed, secret) {
						t.Errorf("the %s prints %q:\n%s", form, secret, printed)
					}
				}
			}
			if !strings.Contains(text.String(), c.shows) {
				t.Errorf("no %q in:\n%s", c.shows, text.String())
			}
		})
	}
}

// Credentials in a location work, but are a warning that says what to do instead.
func TestCredentialsInALocationAreAWarning(t *testing.T) {
	s := healthy()
	s.configData()[trafficRouterPlugins] = fmt.Sprintf("- {name: kedify/http, location: %q, sha256: %q}", "https://robot:s3cret@example.com/rollouts-plugin-kedify-linux-amd64", sum)
	for _, result := range look(s) {
		if result.Check != "plugin-location" {
			continue
		}
		if result.Status != Warning || !strings.Contains(result.Message, "carries credentials") || !strings.Contains(result.Remedy, "headersFrom") {
			t.Errorf("%+v", result)
		}
		return
	}
	t.Error("no plugin-location")
}
