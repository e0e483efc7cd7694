package secret

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTextWithSecrets(t *testing.T) {
	for name, test := range map[string]struct {
		secrets    []string
		text, want string
	}{
		"as it is":                       {[]string{"s3cret"}, "token s3cret, s3cret!", "token ***, ***!"},
		"none":                           {nil, "token s3cret", "token s3cret"},
		"another one":                    {[]string{"s3cret"}, "token s3cre", "token s3cre"},
		"another case":                   {[]string{"s3CRet"}, "token S3crET", "token ***"},
		"overlapping":                    {[]string{"abcdef", "defghi"}, "-abcdefghi-", "-***-"},
		"one in another":                 {[]string{"abcd", "xxabcdxx"}, "-xxabcdxx-abcd-", "-***-***-"},
		"repeating":                      {[]string{"aaaa"}, "-aaaaaaa-", "-***-"},
		"beside each other":              {[]string{"abcd"}, "abcdabcd", "***"},
		"fewer than 4":                   {[]string{"abc", "", "a"}, "abc", "abc"},
		"a scheme before":                {[]string{"token 0123456789"}, "bad token 0123456789: no 0123456789", "bad ***: no ***"},
		"characters of more than a byte": {[]string{"pässwörd"}, "is pässwörd", "is ***"},
	} {
		var r Redactor
		for _, value := range test.secrets {
			r.Add(value)
		}
		if got := r.Text(test.text); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// The encodings of a value of the largest size have a bounded size, whatever is in the
// value.
func TestTheSizeOfTheEncodings(t *testing.T) {
	for _, part := range []string{"ab", `"\`, "\x01\xff", "a ", "日"} {
		var r Redactor
		r.Add(strings.Repeat(part, MaxValue/len(part)))
		size := 0
		for form := range r.forms {
			size += len(form)
		}
		if size > 200*MaxValue {
			t.Errorf("%q: %d encodings have %d KiB", part, len(r.forms), size>>10)
		}
	}
}

// encodings are the ways in which an outside system, or an error, repeats a text.
var encodings = map[string]func(string) string{
	"query":               url.QueryEscape,
	"path":                url.PathEscape,
	"query in lower case": func(s string) string { return lower(url.QueryEscape(s)) },
	"JSON":                inJSON,
	"JSON, slash escaped": func(s string) string { return strings.ReplaceAll(inJSON(s), "/", `\/`) },
	"JSON, HTML unescaped": func(s string) string {
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		_ = e.Encode(s)
		return quoted(strings.TrimSuffix(b.String(), "\n"))
	},
	"Go":                   func(s string) string { return quoted(strconv.Quote(s)) },
	"Go, ASCII":            func(s string) string { return quoted(strconv.QuoteToASCII(s)) },
	"HTML":                 html.EscapeString,
	"hexadecimal":          func(s string) string { return hex.EncodeToString([]byte(s)) },
	"hexadecimal, capital": func(s string) string { return fmt.Sprintf("%X", s) },
}

func inJSON(s string) string {
	raw, _ := json.Marshal(s)
	return quoted(string(raw))
}

func FuzzRedactor(f *testing.F) {
	for _, seed := range []string{"s3cret", `a"b\c/d<e>f&g h+i=j%k`, "line\nline", "pässwörd\x00\x7f", "aaaaaaaa"} {
		f.Add(seed, "before ", " after")
	}
	f.Fuzz(func(t *testing.T, secret, before, after string) {
		if len(secret) < 4 || strings.Contains(mark, secret) || strings.Contains(secret, "***") || !json.Valid([]byte(strconv.Quote(strings.ToValidUTF8(secret, "")))) {
			return
		}
		var r Redactor
		r.Add(secret)
		if got := r.Text(before + secret + after); strings.Contains(got, secret) {
			t.Errorf("got %q, which holds %q", got, secret)
		}
		for name, encode := range encodings {
			form := encode(secret)
			if got := r.Text(before + form + after); strings.Contains(got, form) {
				t.Errorf("%s: got %q, which holds %q", name, got, form)
			}
			again := inJSON(form)
			if got := r.Text(before + again + after); strings.Contains(got, again) {
				t.Errorf("%s, in JSON: got %q, which holds %q", name, got, again)
			}
		}
	})
}

func TestURLs(t *testing.T) {
	var r Redactor
	r.AddURL("https://hooks.example.com/services/T0000/B0000/Zm9vYmFyYmF6cXV4Zm9v?token=0123456789&x=true")
	for text, want := range map[string]string{
		"Cannot POST /services/T0000/B0000/Zm9vYmFyYmF6cXV4Zm9v": "Cannot POST ***",
		"no hook Zm9vYmFyYmF6cXV4Zm9v at hooks.example.com":      "no hook *** at hooks.example.com",
		"bad token 0123456789":                                   "bad token ***",
		"x=true":                                                 "x=true",
	} {
		if got := r.Text(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// A password is encoded in base64 together with the user's name.
func FuzzBase64(f *testing.F) {
	for _, user := range []string{"", "j", "jo", "joe"} {
		f.Add(user, "p4ssword+/", user)
		f.Add(user, "1234", user)
	}
	f.Fuzz(func(t *testing.T, before, secret, after string) {
		if len(secret) < shortest {
			return
		}
		var r Redactor
		r.Add(secret)
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			for _, text := range []string{secret, url.QueryEscape(secret)} {
				whole := encoding.EncodeToString([]byte(before + text + after))
				// All digits that encode nothing but the secret.
				from, to := (len(before)*8+5)/6, len(before+text)*8/6
				if got := r.Text(whole); strings.Contains(got, whole[from:to]) && !strings.Contains(mark, whole[from:to]) {
					t.Errorf("got %q, which holds %q", got, whole[from:to])
				}
			}
		}
	})
}

func TestJSONWithSecrets(t *testing.T) {
	var r Redactor
	r.Add("s3cret")
	r.Add("12345")
	decoder := json.NewDecoder(strings.NewReader(`{"a":["x s3cret",{"s3cret":null}],"n":912345,"m":7,"b":true}`))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"a": []any{"x ***", map[string]any{"***": nil}}, "n": "9***", "m": json.Number("7"), "b": true}
	if diff := cmp.Diff(want, r.JSON(value)); diff != "" {
		t.Error(diff)
	}
}

// Each text of an answer is redacted as it would be alone.
func FuzzJSON(f *testing.F) {
	f.Add("s3cret", `{"a": ["s3cret", "s3", "cret", {"s3cret": "x\\u0073"}], "b": [], "c": 12345, "": ""}`)
	f.Add("12345", `[1, 234, 123456, "1", "2345", "\\n"]`)
	f.Add("a\nb ", `["a", "b ", "a\nb "]`)
	f.Fuzz(func(t *testing.T, secret, text string) {
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		var value any
		if len(secret) < shortest || strings.Contains(mark, secret) || decoder.Decode(&value) != nil {
			return
		}
		var r Redactor
		r.Add(secret)
		eachText(r.JSON(value), func(got string) {
			if strings.Contains(got, secret) {
				t.Errorf("%q holds the secret %q", got, secret)
			}
		})
		if r.find(text) == nil && !strings.Contains(text, `\`) && !strings.Contains(secret, "\n") {
			if diff := cmp.Diff(value, r.JSON(value)); diff != "" {
				t.Errorf("without the secret: %s", diff)
			}
		}
	})
}

func TestErrorWithSecret(t *testing.T) {
	var r Redactor
	r.Add("s3cret")
	cause := errors.New("cause s3cret")
	err := r.Error(fmt.Errorf("failed: %w", cause))
	if err.Error() != "failed: cause ***" || !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
	if r.Error(nil) != nil {
		t.Error("no error became one")
	}
}
