package secret

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
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
		"one the beginning of another":   {[]string{"abcd", "abcde", "abcdef", "abcdefg", "abcdefgh", "abcdefghi"}, "-abcdefghi-", "-***-"},
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
		if size > 60*MaxValue {
			t.Errorf("%q: %d encodings have %d KiB", part, len(r.forms), size>>10)
		}
	}
}

// encodings are the ways in which an outside system, or an error, repeats a text.
var encodings = map[string]func(string) string{
	"as it is":            func(s string) string { return s },
	"query":               url.QueryEscape,
	"path":                url.PathEscape,
	"component":           func(s string) string { return asComponent.Replace(url.QueryEscape(s)) },
	"query in a query":    func(s string) string { return url.QueryEscape(url.QueryEscape(s)) },
	"query in lower case": func(s string) string { return lower(url.QueryEscape(s)) },
	"JSON":                inJSON,
	"JSON, slash escaped": func(s string) string { return strings.ReplaceAll(inJSON(s), "/", `\/`) },
	"JSON, HTML unescaped": func(s string) string {
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		_ = e.Encode(s)
		return inside(strings.TrimSuffix(b.String(), "\n"))
	},
	"in ASCII":     func(s string) string { return inside(strconv.QuoteToASCII(s)) },
	"JSON in JSON": func(s string) string { return inJSON(inJSON(s)) },
	"JSON in JSON, of PHP": func(s string) string {
		return strings.ReplaceAll(inJSON(strings.ReplaceAll(inJSON(s), "/", `\/`)), "/", `\/`)
	},
	"JSON of .NET": func(s string) string { return dotnet.Replace(inJSON(s)) },
	"HTML":         html.EscapeString,
	"HTML, all that is no letter": func(s string) string {
		return strings.NewReplacer("+", "&#43;", "/", "&#x2F;", "=", "&#x3D;").Replace(html.EscapeString(s))
	},
	"HTML in JSON": func(s string) string { return inJSON(html.EscapeString(s)) },
}

// asComponent turns what url.QueryEscape returns into what JavaScript's encodeURIComponent does.
var asComponent = strings.NewReplacer("+", "%20", "%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*")

var dotnet = strings.NewReplacer(`\"`, `\u0022`, "+", `\u002B`, "'", `\u0027`, "`", `\u0060`)

func inside(quoted string) string { return quoted[1 : len(quoted)-1] }

func inJSON(s string) string {
	raw, _ := json.Marshal(s)
	return inside(string(raw))
}

func FuzzRedactor(f *testing.F) {
	for _, seed := range []string{"s3cret", `a"b\c/d<e>f&g h+i=j%k!(l)`, "Ab+cd/ef12==", `100%41&amp;\n`, "line\nline", "pässwörd\x00\x7f", "pässwörd <\"", "aaaaaaaa", "a secret of  words"} {
		f.Add(seed, "before ", " after", 10)
		f.Add(seed, "before ", " after", 200)
	}
	f.Fuzz(func(t *testing.T, secret, before, after string, limit int) {
		if len(secret) < shortest || strings.Contains(secret, "*") || limit < 0 {
			return
		}
		var r Redactor
		r.Add(secret)
		for name, encode := range encodings {
			form := encode(secret)
			text := before + form + after
			if got := r.Text(text); strings.Contains(got, form) {
				t.Errorf("%s: got %q, which holds %q", name, got, form)
			}
			if !r.Contains(text) {
				t.Errorf("%s: %q does not contain the secret", name, text)
			}
			quote := r.Quote(text, limit)
			if strings.Contains(quote, form) {
				t.Errorf("%s: the quote %q holds %q", name, quote, form)
			}
			if whole := r.Quote(text, len(text)); limit >= len(text) && quote != whole {
				t.Errorf("%s: got %q with a higher limit than the text has, want %q", name, quote, whole)
			}
			// A quote that ends in the secret shows none of it.
			if r.Text(before+form) != before+mark || r.Contains(oneLine(before+mark)) {
				continue
			}
			cut := len(before) + 1 + limit%len(form)
			if got, want := r.Quote(text+".", cut), oneLine(before+mark)+"…"; got != want {
				t.Errorf("%s: %d bytes of %q are %q, want %q", name, cut, text, got, want)
			}
		}
	})
}

func oneLine(text string) string {
	var r Redactor
	return r.Quote(text, len(text))
}

func TestQuote(t *testing.T) {
	var r Redactor
	r.Add("0123456789")
	r.Add("two words")
	for text, want := range map[string]string{
		"":                                    "",
		"short":                               "short",
		" two\n\tlines \r\n":                  "two lines",
		"token 0123456789 is":                 "token *** is",
		"this is a text that goes on":         "this is a text that…",
		"twenty bytes: 0123456789 and more":   "twenty bytes: ***…",
		"twenty bytes: MDEyMzQ1Njc4OQ==":      "twenty bytes: ***…",
		"two\nwords":                          "***",
		"pass\u200bword \x1b[31m\xff":         "pass word [31m",
		"nineteen bytes: abc\u00e4":           "nineteen bytes: abc…",
		strings.Repeat(" ", 100) + "too late": "",
	} {
		if got := r.Quote(text, 20); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// 200 bytes of an answer of 1 MiB are quoted without a search in all of it, with as many
// secrets as a step can have.
func TestQuoteOfALargeAnswer(t *testing.T) {
	var r Redactor
	for i := range 32 {
		r.Add(strings.Repeat(fmt.Sprintf("%04d", i), 256))
	}
	text := strings.Repeat("a", 1<<20)
	timed := func(f func() string, want string) time.Duration {
		begun := time.Now()
		if got := f(); got != want {
			t.Fatalf("got %.300q", got)
		}
		return time.Since(begun)
	}
	for range 10 { // the machine may be busy
		quote := timed(func() string { return r.Quote(text, 200) }, text[:200]+"…")
		whole := timed(func() string { return r.Text(text) }, text)
		if quote < whole/10 {
			return
		}
	}
	t.Error("a quote takes longer than a tenth of all of the text")
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
