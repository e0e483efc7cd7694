package strict

import (
	"encoding/json"
	"errors"
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
	for text, want := range map[string]string{
		`{"timout": "5m"}`:                        `timout: the key is not known: did you mean "timeout"?`,
		`{"Timeout": "5m"}`:                       `Timeout: the key is not known: did you mean "timeout"?`,
		`{"request": {"URL": "u"}}`:               `request.URL: the key is not known: did you mean "url"?`,
		`{"then": [{"url": "u"}, {"urls": "u"}]}`: `then[1].urls: the key is not known: did you mean "url"?`,
		`{"hidden": "x"}`:                         `hidden: the key is not known: did you mean "then"?`,
		`{"id": "a", "id": "b"}`:                  `id: the key is there twice`,
		`{"timout": 1, "retrys": 1}`:              `timout: the key is not known: did you mean "timeout"?; retrys: the key is not known: did you mean "retries"?`,
		`{"timeout": 5}`:                          `timeout: want a duration such as 5m, as a string`,
		`{"timeout": "5"}`:                        `timeout: want a duration such as 5m, as a string`,
		`{"id": 7}`:                               `id: want a string, not a number: put it in quotes`,
		`{"request": {"headers": {"X-A": true}}}`: `request.headers.X-A: want a string, not true or false: put it in quotes`,
		`{"request": {"codes": [1, "200"]}}`:      `request.codes[1]: want a whole number, not a string`,
		`{"request": {"codes": 200}}`:             `request.codes: want a list, not a number`,
		`{"request": {"tls": "yes"}}`:             `request.tls: want true or false, not a string`,
		`{"request": []}`:                         `request: want an object, not a list`,
		`{"request": "https://user:password@h"}`:  `request: want an object, not a string`,
		`{"retries": 1.5}`:                        `retries: want a whole number, not a number`,
		`{"ratio": {}}`:                           `ratio: want a number, not an object`,
		`{"job": {"backOffLimit": 1}}`:            `job.backOffLimit: the key is not known: did you mean "backoffLimit"?`,
		`{"job": {"template": {"spec": {"containers": [{"image": 7}]}}}}`:                               `job.template.spec.containers[0].image: want a string, not a number: put it in quotes`,
		`{"job": {"template": {"spec": {"containers": [{"resources": {"limits": {"cpu": "much"}}}]}}}}`: `job.template.spec.containers[0].resources.limits.cpu: `,
		`[]`:       `the value: want an object, not a list`,
		``:         `no valid JSON: line 1: unexpected end of JSON input`,
		"{\n\n a}": `no valid JSON: line 3: invalid character 'a' looking for beginning of object key string`,
		`{} {}`:    `no valid JSON: line 1: invalid character '{' after top-level value`,
	} {
		var into settings
		err := Decode([]byte(text), &into)
		var typed *Error
		if !errors.As(err, &typed) || err.Error() != want && !strings.HasPrefix(err.Error(), want+"quantities") {
			t.Errorf("Decode(%s) is the error\n%v, want\n%s", text, err, want)
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
