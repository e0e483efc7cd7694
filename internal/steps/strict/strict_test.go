package strict

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

type common struct {
	ID      string          `json:"id,omitempty"`
	Timeout metav1.Duration `json:"timeout,omitzero"`
	Retries int32           `json:"retries,omitempty"`
}

type request struct {
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
	Codes   []int             `json:"codes,omitempty"`
	JSON    json.RawMessage   `json:"json,omitempty"`
	TLS     *bool             `json:"tls,omitempty"`
}

type settings struct {
	common   `json:",inline"`
	Request  *request           `json:"request,omitempty"`
	Then     []request          `json:"then,omitempty"`
	Port     intstr.IntOrString `json:"port,omitzero"`
	Deadline *metav1.Duration   `json:"deadline,omitempty"`
	Ratio    float64            `json:"ratio,omitempty"`
	Body     []byte             `json:"body,omitempty"`
	Size     uint8              `json:"size,omitempty"`
	Hidden   string             `json:"-"`
	Job      *batchv1.JobSpec   `json:"job,omitempty"`
}

func TestDecodeReadsWhatIsRight(t *testing.T) {
	text := `{"id": "a", "timeout": "5m", "port": "http", "deadline": "1s", "ratio": 1, "body": "aGk=", "size": 255,
		"request": {"url": "u", "headers": {"a.b/c": "d"}, "codes": [200, 201], "json": {"a": [null, 1.5]}, "tls": null},
		"then": [{"url": "v"}], "retries": null,
		"job": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "500m", "memory": 1}}}]}}}}`
	var got, want settings
	if err := Decode([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(text), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(settings{})); diff != "" {
		t.Error(diff)
	}
}

func TestDecodeSaysWhatIsWrong(t *testing.T) {
	long := strings.Repeat("k", 500)
	for text, want := range map[string]string{
		`{"timout": "5m"}`:                        `timout: the key is not known: did you mean "timeout"?`,
		`{"Timeout": "5m"}`:                       `Timeout: the key is not known: did you mean "timeout"?`,
		`{"request": {"URL": "u"}}`:               `request.URL: the key is not known: did you mean "url"?`,
		`{"then": [{"url": "u"}, {"urls": "u"}]}`: `then[1].urls: the key is not known: did you mean "url"?`,
		`{"hidden": "x"}`:                         `hidden: the key is not known: did you mean "id"?`,
		`{"-": "x"}`:                              `-: the key is not known: did you mean "id"?`,
		`{"a\nb": 1}`:                             `["a\nb"]: the key is not known: did you mean "job"?`,
		`{"` + long + `": 1}`:                     long[:61] + `…: the key is not known`,
		`{"id": "a", "id": "b"}`:                  `id: the key is there twice`,
		`{"request": {"headers": {"a b": "", "a b": ""}}}`: `request.headers["a b"]: the key is there twice`,
		`{"request": {"json": {"a": [{"b": 1, "b": 1}]}}}`: `request.json.a[0].b: the key is there twice`,
		`{"timeout": 5}`:                            `timeout: want a duration such as 5m, not 5`,
		`{"timeout": "5"}`:                          `timeout: want a duration such as 5m, not "5"`,
		`{"deadline": {"a": 1, "a": 2}}`:            `deadline.a: the key is there twice; deadline: want a duration such as 5m, not {"a": 1, "a": 2}`,
		`{"port": true}`:                            `port: want a whole number, or a string such as 25%, not true`,
		`{"id": 7}`:                                 `id: want a string, not 7: put it in quotes`,
		`{"request": {"headers": {"X": true}}}`:     `request.headers.X: want a string, not true: put it in quotes`,
		`{"request": {"headers": {"X": null}}}`:     `request.headers.X: want a string, not null`,
		`{"request": {"codes": [200, null]}}`:       `request.codes[1]: want a whole number, not null`,
		`{"request": {"codes": ["200"]}}`:           `request.codes[0]: want a whole number, not a string`,
		`{"request": {"codes": 200}}`:               `request.codes: want a list, not 200`,
		`{"request": {"tls": "yes"}}`:               `request.tls: want true or false, not a string`,
		`{"request": []}`:                           `request: want an object, not a list`,
		`{"request": "https://user:password@host"}`: `request: want an object, not a string`,
		`{"retries": 1.5}`:                          `retries: want a whole number, not 1.5`,
		`{"retries": 3000000000}`:                   `retries: want a whole number, not 3000000000`,
		`{"size": -1}`:                              `size: want a whole number that is not negative, not -1`,
		`{"ratio": {}}`:                             `ratio: want a number, not an object`,
		`{"body": [1]}`:                             `body: want a string in base64, not a list`,
		`{"job": {"template": {"spec": {"containers": [{"image": 7, "name": "c"}]}}}}`:                  `job.template.spec.containers[0].image: want a string, not 7: put it in quotes`,
		`{"job": {"template": {"spec": {"containers": [{"resources": {"limits": {"cpu": "much"}}}]}}}}`: `job.template.spec.containers[0].resources.limits.cpu: want a quantity such as 500m or 128Mi, not "much"`,
		`{"job": {"backOffLimit": 1}}`:                `job.backOffLimit: the key is not known: did you mean "backoffLimit"?`,
		`{"timout": 1, "retrys": 1}`:                  `timout: the key is not known: did you mean "timeout"?; retrys: the key is not known: did you mean "retries"?`,
		`{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1}`: `a: the key is not known: did you mean "id"?; b: the key is not known: did you mean "id"?; c: the key is not known: did you mean "id"?; d: the key is not known: did you mean "id"?; e: the key is not known: did you mean "id"?`,
		`{"request": {"json": ` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}}`: `request.json` + strings.Repeat("[0]", 16) + `[…: more than 100 objects and lists in one another`,
		`null`:     `the value: want an object, not null`,
		`[]`:       `the value: want an object, not a list`,
		``:         `no valid JSON: line 1: unexpected end of JSON input`,
		"{\n\n a}": `no valid JSON: line 3: invalid character 'a' looking for beginning of object key string`,
		`{} {}`:    `no valid JSON: line 1: invalid character '{' after top-level value`,
	} {
		var into settings
		err := Decode([]byte(text), &into)
		if err == nil {
			t.Errorf("Decode(%s) is no error, want %q", text, want)
		} else if err.Error() != want {
			t.Errorf("Decode(%s) is the error\n%s, want\n%s", text, err, want)
		}
	}
}

// Invalid base64, and a number too large for a float, are left to the decoder.
func TestDecodeRefusesWhatOnlyTheDecoderSees(t *testing.T) {
	for _, text := range []string{`{"body": "%"}`, `{"ratio": 1e999}`} {
		if err := Decode([]byte(text), new(settings)); err == nil {
			t.Errorf("Decode(%s) is no error", text)
		}
	}
}

// shadowing has a key that its embedded struct has, too.
type shadowing struct {
	common  `json:",inline"`
	Retries bool `json:"retries"`
}

func TestDecodeReadsTheOuterOfTwoKeys(t *testing.T) {
	var got shadowing
	if err := Decode([]byte(`{"retries": true, "id": "a"}`), &got); err != nil || !got.Retries || got.ID != "a" {
		t.Errorf("%+v, %v", got, err)
	}
}

// ambiguous has a key twice, so that encoding/json leaves it out.
type ambiguous struct {
	left
	right
}

type (
	left  struct{ Value string }
	right struct{ Value string }
)

func TestDecodeRefusesWhatEncodingJSONLeavesOut(t *testing.T) {
	if err := Decode([]byte(`{"Value": "a"}`), new(ambiguous)); err == nil {
		t.Error("a key that is dropped is no error")
	}
}

func FuzzDecode(f *testing.F) {
	for _, text := range []string{
		`{"id": "a", "timeout": "5m", "retries": 1, "port": 80, "ratio": 1.5, "body": "aGk=", "size": 1}`,
		`{"request": {"url": "u", "headers": {"a": "b"}, "codes": [1], "json": {"a": null}, "tls": true}, "then": [{}]}`,
		`{"job": {"template": {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}}}}`,
		`{"ID": 1, "timeout": 5, "id": "\ud800", "request": null}`,
		`[[[[`, strings.Repeat(`{"a":`, 120) + `0` + strings.Repeat(`}`, 120), `null`, `{"": {"": ""}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var got, want settings
		if err := Decode(text, &got); err != nil {
			if err.Error() == "" || len(err.Error()) > 64*1024+len(text)*8 {
				t.Errorf("error of %d bytes: %.100s", len(err.Error()), err)
			}
			return
		}
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatalf("Decode accepts %q, which encoding/json does not: %v", text, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("Decode(%q) is %+v, encoding/json has %+v", text, got, want)
		}
	})
}
