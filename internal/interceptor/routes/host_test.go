package routes

import (
	"strings"
	"testing"
)

func TestCanonicalHost(t *testing.T) {
	tests := map[string]string{
		"app.example.com":       "app.example.com",
		"App.EXAMPLE.com:8080":  "app.example.com",
		"app.example.com.":      "app.example.com",
		"app.example.com.:80":   "app.example.com",
		"app.example.com..":     "app.example.com.",
		"app.example.com:":      "app.example.com",
		"10.0.0.1:80":           "10.0.0.1",
		"[2001:DB8::1]:8080":    "[2001:db8::1]",
		"[2001:db8::1]":         "[2001:db8::1]",
		"":                      "",
		":80":                   "",
		".":                     "",
		"Kelvin\u212a.example":  "kelvin\u212a.example",
		"app.example.com:http:": "app.example.com:http",
	}
	for host, want := range tests {
		if got := CanonicalHost(host); got != want {
			t.Errorf("CanonicalHost(%q) = %q, want %q", host, got, want)
		}
	}
}

func TestHostPattern(t *testing.T) {
	long := strings.Repeat("a", 63)
	tests := map[string]struct{ want, wantErr string }{
		"app.example.com":                {want: "app.example.com"},
		"App.Example.Com:8080":           {want: "app.example.com"},
		"app.example.com.":               {want: "app.example.com"},
		"localhost":                      {want: "localhost"},
		"my_app.example.com":             {want: "my_app.example.com"},
		"*":                              {want: "*"},
		"*:8080":                         {want: "*"},
		"*.example.com":                  {want: "*.example.com"},
		"*.com":                          {want: "*.com"},
		"10.0.0.1":                       {want: "10.0.0.1"},
		"2001:db8:0::1":                  {want: "[2001:db8::1]"},
		"[2001:DB8::1]:8080":             {want: "[2001:db8::1]"},
		long + "." + long:                {want: long + "." + long},
		"":                               {wantErr: "names no host"},
		"*.":                             {wantErr: "in the wrong place"},
		"*example.com":                   {wantErr: "in the wrong place"},
		"app.*.com":                      {wantErr: "in the wrong place"},
		"app.*":                          {wantErr: "in the wrong place"},
		"*.*.com":                        {wantErr: "in the wrong place"},
		"app..com":                       {wantErr: "between two dots"},
		".com":                           {wantErr: "a dot at the beginning"},
		"http://app.example.com":         {wantErr: "not a host name"},
		"app.example.com/foo":            {wantErr: "not a host name"},
		"büro.example.com":               {wantErr: "punycode"},
		"-app.example.com":               {wantErr: "hyphen"},
		"app example.com":                {wantErr: "not a host name"},
		long + "a.com":                   {wantErr: "label of 64 characters"},
		strings.Repeat("a.", 126) + "ab": {wantErr: "254 characters"},
		"[2001:db8::1":                   {wantErr: "IPv6 address in brackets"},
		"[10.0.0.1]":                     {wantErr: "IPv6 address in brackets"},
		"fe80::1%eth0":                   {wantErr: "zone"},
		"app.example.com\nx-evil: 1":     {wantErr: "not a host name"},
		"*." + strings.Repeat(long+".", 3) + "com": {want: "*." + strings.Repeat(long+".", 3) + "com"},
	}
	for host, tt := range tests {
		got, err := hostPattern(host)
		checkResult(t, "hostPattern", host, got, err, tt.want, tt.wantErr)
	}
}

func checkResult(t *testing.T, what, in, got string, err error, want, wantErr string) {
	t.Helper()
	switch {
	case wantErr == "" && err != nil:
		t.Errorf("%s(%q): %v", what, in, err)
	case wantErr != "" && (err == nil || !strings.Contains(err.Error(), wantErr)):
		t.Errorf("%s(%q) = %q, error %v; want one with %q", what, in, got, err, wantErr)
	case wantErr == "" && got != want:
		t.Errorf("%s(%q) = %q, want %q", what, in, got, want)
	}
}

// FuzzHostPattern: neither hostPattern nor CanonicalHost changes a pattern that
// hostPattern has returned.
func FuzzHostPattern(f *testing.F) {
	for _, host := range []string{"app.example.com", "*.Example.com:80", "[::1]", "::FFFF:1.2.3.4", "*", "a..b", "*.*"} {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		pattern, err := hostPattern(host)
		if err != nil {
			return
		}
		if again, err := hostPattern(pattern); err != nil || again != pattern {
			t.Errorf("%q becomes %q, and that %q, %v", host, pattern, again, err)
		}
		if canonical := CanonicalHost(pattern); canonical != pattern {
			t.Errorf("%q becomes %q, which no host is: %q", host, pattern, canonical)
		}
	})
}
