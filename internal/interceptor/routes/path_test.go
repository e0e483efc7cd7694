package routes

import (
	"strings"
	"testing"
)

func TestPathOf(t *testing.T) {
	tests := map[string]string{
		"/":                              "/",
		"/foo/bar?q=/x":                  "/foo/bar",
		"/foo%2Fbar":                     "/foo%2Fbar",
		"/foo/../bar//":                  "/foo/../bar//",
		"/?":                             "/",
		"http://app.example.com/foo?q":   "/foo",
		"http://app.example.com":         "/",
		"http://app.example.com?q=/x":    "/",
		"//foo":                          "//foo",
		"*":                              "",
		"app.example.com:443":            "",
		"":                               "",
		"/redirect?to=http://elsewhere/": "/redirect",
	}
	for target, want := range tests {
		if got := PathOf(target); got != want {
			t.Errorf("PathOf(%q) = %q, want %q", target, got, want)
		}
	}
}

func TestPathPrefix(t *testing.T) {
	tests := map[string]struct{ want, wantErr string }{
		"":                              {want: "/"},
		"/":                             {want: "/"},
		"//":                            {want: "/"},
		"/foo":                          {want: "/foo"},
		"/foo/":                         {want: "/foo"},
		"/foo//":                        {want: "/foo"},
		"foo/bar":                       {want: "/foo/bar"},
		"//foo":                         {want: "//foo"},
		"/foo//bar":                     {want: "/foo//bar"},
		"/a%2Fb;v=1":                    {want: "/a%2Fb;v=1"},
		"/.well-known":                  {want: "/.well-known"},
		"/foo?bar":                      {wantErr: "without query"},
		"/foo#bar":                      {wantErr: "without query"},
		"/foo/*":                        {wantErr: "star"},
		"/foo%2":                        {wantErr: "hexadecimal"},
		"/foo%zz":                       {wantErr: "hexadecimal"},
		"/foo bar":                      {wantErr: "percent-encoded"},
		"/bücher":                       {wantErr: "percent-encoded"},
		"/foo\r\n":                      {wantErr: "percent-encoded"},
		"/foo/../bar":                   {wantErr: `segment ".."`},
		"./foo":                         {wantErr: `segment "."`},
		"/" + strings.Repeat("a", 2048): {wantErr: "above 2048"},
	}
	for prefix, tt := range tests {
		got, err := pathPrefix(prefix)
		checkResult(t, "pathPrefix", prefix, got, err, tt.want, tt.wantErr)
	}
}

// FuzzPathPrefix: pathPrefix does not change a prefix that it has returned, and that
// has the form that Envoy requires of path_separated_prefix.
func FuzzPathPrefix(f *testing.F) {
	for _, prefix := range []string{"/foo", "foo/", "//", "/a%2f", "/é", "/?", "/./"} {
		f.Add(prefix)
	}
	f.Fuzz(func(t *testing.T, prefix string) {
		clean, err := pathPrefix(prefix)
		if err != nil || clean == anyPath {
			return
		}
		if again, err := pathPrefix(clean); err != nil || again != clean {
			t.Errorf("%q becomes %q, and that %q, %v", prefix, clean, again, err)
		}
		if len(clean) < 2 || clean[0] != '/' || strings.HasSuffix(clean, "/") || strings.ContainsAny(clean, "?#") {
			t.Errorf("%q becomes %q, which Envoy refuses", prefix, clean)
		}
	})
}
