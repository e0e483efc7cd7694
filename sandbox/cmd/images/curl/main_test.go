package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestCurl(t *testing.T) {
	failures := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/missing":
			http.NotFound(w, r)
		case r.URL.Path == "/at-first" && failures == 0:
			failures++
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			_, _ = w.Write([]byte("blue"))
		}
	}))
	defer server.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, tc := range map[string]struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		"a body":              {[]string{server.URL}, 0, "blue", ""},
		"an answer of 404":    {[]string{server.URL + "/missing"}, 0, "404 page not found\n", ""},
		"that is to fail":     {[]string{"--fail", "--silent", "--show-error", server.URL + "/missing"}, 22, "", "curl: (22) The requested URL returned error: 404"},
		"in silence":          {[]string{"--fail", "--silent", server.URL + "/missing"}, 22, "", ""},
		"what is transient":   {[]string{"--fail", "--retry=1", server.URL + "/at-first"}, 0, "blue", ""},
		"nobody listens":      {[]string{gone.URL}, 7, "", "curl: (7) "},
		"no such host":        {[]string{"http://none.invalid/"}, 6, "", "curl: (6) "},
		"an option of curl's": {[]string{"--location", server.URL}, 2, "", "the sandbox's curl takes"},
		"no URL":              {[]string{"--fail"}, 2, "", "one URL"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := curlMain(tc.args, &stdout, &stderr); code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if stdout.String() != tc.stdout {
				t.Errorf("stdout %q, want %q", &stdout, tc.stdout)
			}
			if !strings.Contains(stderr.String(), tc.stderr) || tc.stderr == "" && stderr.Len() > 0 {
				t.Errorf("stderr %q, want %q", &stderr, tc.stderr)
			}
		})
	}
}
