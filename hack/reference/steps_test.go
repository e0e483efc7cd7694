package main

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/kinds"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/strict"
)

var root = filepath.Join("..", "..")

// Each kind has its part, with exactly the keys that the kind takes.
func TestPartsAreOfTheKinds(t *testing.T) {
	all := kinds.All(kinds.Options{})
	if len(all) != len(kindParts) {
		t.Errorf("%d kinds, %d parts", len(all), len(kindParts))
	}
	for _, part := range kindParts {
		kind := kinds.Named(all, part.name)
		if kind == nil {
			t.Errorf("there is no kind %s", part.name)
			continue
		}
		for _, key := range append(strict.Keys(part.of), strict.Key{Name: "noKindHasThis"}) {
			raw, err := json.Marshal(map[string]any{key.Name: nil})
			if err != nil {
				t.Fatal(err)
			}
			_, err = kind.Parse(steps.Source{Config: raw})
			if unknown := err != nil && strings.Contains(err.Error(), key.Name) && strings.Contains(err.Error(), "known"); unknown != (key.Name == "noKindHasThis") {
				t.Errorf("kind %s with the key %s: %v", part.name, key.Name, err)
			}
		}
	}
}

func TestPresetsHaveTheKeysOfTheirPart(t *testing.T) {
	for _, key := range strict.Keys(reflect.TypeFor[steps.Preset]()) {
		if _, err := steps.ReadPreset([]byte(key.Name + ":")); err != nil {
			t.Errorf("%s: %v", key.Name, err)
		}
	}
}

type object struct {
	Key   string   `json:"key"`
	Inner *inner   `json:"inner,omitempty"`
	Codes []int    `json:"codes,omitempty"`
	Mode  mode     `json:"mode,omitempty"`
	Again []string `json:"again,omitempty"`
	Rows  []row    `json:"rows,omitempty"`
}

type row struct {
	Name string `json:"name"`
}

type inner struct {
	Deep map[string]string `json:"deep,omitempty"`
}

type mode string

type embedding struct {
	inner
	Own string `json:"own,omitempty"`
}

type unspeakable struct {
	Channel chan int `json:"channel"`
}

// read is newReference with these comments for the types of this test.
func read(fields map[string]string) *reference {
	r := newReference(root)
	r.comments.packages["hack/reference"] = &sources{
		types: map[string]string{
			"object": "object is one.\n\n\tpreformatted\n", "inner": "inner is in it.\n",
			"row": "row is a row.\n", "embedding": "embedding has another.\n", "unspeakable": "unspeakable is nothing.\n",
		},
		fields:    fields,
		constants: map[string][]string{"mode": {"Fail", "Ignore"}},
	}
	return r
}

func commented(more ...string) map[string]string {
	fields := map[string]string{
		"object.Key": "Key is a | b,\non two lines.\n\nRequired.\n", "object.Inner": "Inner is more.\n", "object.Codes": "Codes are two.\n\nDefault: `1`, or\nanother.\n",
		"object.Mode": "Mode is one of two.\n\nIt has two paragraphs.\n", "object.Again": "Again is a list.\n", "object.Rows": "Rows are many.\n", "row.Name": "Name is its name.\n", "inner.Deep": "Deep is deep.\n",
		"embedding.Own": "Own is its own.\n", "unspeakable.Channel": "Channel is none.\n",
	}
	for i := 0; i < len(more); i += 2 {
		fields[more[i]] = more[i+1]
	}
	return fields
}

func TestPage(t *testing.T) {
	got, err := read(commented()).page([]part{
		{"Object", "An object", reflect.TypeFor[object]()},
		{"Embedding", "`embedding`", reflect.TypeFor[embedding]()},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := strings.ReplaceAll(`
### Object

An object is one.

	preformatted

| key | type | default | meaning |
|---|---|---|---|
| 'key' | string | required | 'key' is a \| b, on two lines. |
| 'inner' | ['inner'](#inner) |  | 'inner' is more. |
| 'codes' | list of whole numbers | '1', or another | 'codes' are two. |
| 'mode' | 'Fail' or 'Ignore' |  | 'mode' is one of two. It has two paragraphs. |
| 'again' | list of strings |  | 'again' is a list. |
| 'rows' | list of ['rows'](#rows) |  | 'rows' are many. |

#### 'inner'

'inner' is in it.

| key | type | default | meaning |
|---|---|---|---|
| 'deep' | object of strings |  | 'deep' is deep. |

#### 'rows'

'rows' is a row.

| key | type | default | meaning |
|---|---|---|---|
| 'name' | string |  | 'name' is its name. |

### Embedding

'embedding' has another.

| key | type | default | meaning |
|---|---|---|---|
| 'own' | string |  | 'own' is its own. |

It also has the keys of ['inner'](#inner).
`, "'", "`")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestKeysWithoutWordsAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		of     reflect.Type
		fields map[string]string
		says   string
	}{
		"no comment":           {reflect.TypeFor[object](), commented("object.Key", ""), "object.Key: want a comment that begins with Key"},
		"none further in":      {reflect.TypeFor[object](), commented("inner.Deep", ""), "inner.Deep: want a comment that begins with Deep"},
		"of another name":      {reflect.TypeFor[object](), commented("object.Key", "Keys are many.\n"), "object.Key: want a comment that begins with Key"},
		"preformatted":         {reflect.TypeFor[object](), commented("object.Key", "Key is\n\n\tcode\n"), "object.Key: a cell of a table has no preformatted text"},
		"embedded, untold":     {reflect.TypeFor[embedding](), commented(), "the keys of main.inner, which is embedded, are told nowhere"},
		"type without words":   {reflect.TypeFor[unspeakable](), commented(), "unspeakable.Channel: there are no words for the type chan int"},
		"type with no comment": {reflect.TypeFor[mode](), commented(), "want a comment that begins with mode"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := read(tc.fields).page([]part{{"Object", "object", tc.of}}); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v, want %q", err, tc.says)
			}
		})
	}
}
