package kube

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestMergePatch(t *testing.T) {
	for name, tc := range map[string]struct{ from, to, want string }{
		"nothing":                           {`{"spec":{"a":1}}`, `{"spec":{"a":1}}`, `null`},
		"a number of another Go type":       {`{"spec":{"a":1}}`, `{"spec":{"a":1.0}}`, `null`},
		"a value":                           {`{"spec":{"a":1,"b":2}}`, `{"spec":{"a":3,"b":2}}`, `{"spec":{"a":3}}`},
		"a key less":                        {`{"spec":{"a":1,"b":{"c":1,"d":2}}}`, `{"spec":{"a":1,"b":{"d":2}}}`, `{"spec":{"b":{"c":null}}}`},
		"a map less":                        {`{"metadata":{"labels":{"a":"1"}}}`, `{"metadata":{}}`, `{"metadata":{"labels":null}}`},
		"a map more":                        {`{"metadata":{}}`, `{"metadata":{"labels":{"a":"1"}}}`, `{"metadata":{"labels":{"a":"1"}}}`},
		"a map that becomes empty":          {`{"spec":{"a":{"b":1}}}`, `{"spec":{"a":{}}}`, `{"spec":{"a":{"b":null}}}`},
		"a map that becomes a value":        {`{"spec":{"a":{"b":1}}}`, `{"spec":{"a":"b"}}`, `{"spec":{"a":"b"}}`},
		"a value that becomes a map":        {`{"spec":{"a":"b"}}`, `{"spec":{"a":{"b":1}}}`, `{"spec":{"a":{"b":1}}}`},
		"a list is replaced whole":          {`{"spec":{"a":[{"b":1,"c":2}]}}`, `{"spec":{"a":[{"b":1}]}}`, `{"spec":{"a":[{"b":1}]}}`},
		"null where nothing was":            {`{"spec":{}}`, `{"spec":{"a":null}}`, `null`},
		"what is the API server's":          {`{"metadata":{"uid":"1","generation":1,"resourceVersion":"1"},"status":{"a":1}}`, `{"metadata":{"managedFields":[]}}`, `null`},
		"keys by the names of those things": {`{"spec":{}}`, `{"spec":{"status":1,"metadata":{"uid":"x"}}}`, `{"spec":{"metadata":{"uid":"x"},"status":1}}`},
	} {
		patch, err := mergePatch(parsed(t, tc.from), parsed(t, tc.to))
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(patch)
		if err != nil || string(got) != tc.want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, tc.want)
		}
	}
}

func parsed(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	// Decoded by encoding/json and not by decode: 1.0 has to stay a float64.
	var fields map[string]any
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: fields}
}

// The difference of two maps, applied as RFC 7386 says, turns the first into the second,
// and is nothing if they are equal.
func TestDifferenceApplied(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		from, to := tree(random, 3), tree(random, 3)
		patch := difference(from, to)
		if got := applied(from, patch); !reflect.DeepEqual(got, any(to)) {
			t.Fatalf("from %v by %v: %v, want %v", from, patch, got, to)
		}
		if (patch == nil) != reflect.DeepEqual(from, to) {
			t.Fatalf("from %v to %v: %v", from, to, patch)
		}
	}
}

// tree is a random map whose values are maps, lists and numbers of few kinds, so
// that two of them have something in common.
func tree(random *rand.Rand, depth int) map[string]any {
	fields := map[string]any{}
	for range random.IntN(4) {
		key := strconv.Itoa(random.IntN(4))
		switch kind := random.IntN(4); {
		case kind == 0 && depth > 0:
			fields[key] = tree(random, depth-1)
		case kind == 1 && depth > 0:
			fields[key] = []any{tree(random, depth-1)}
		default:
			fields[key] = int64(random.IntN(2))
		}
	}
	return fields
}

// applied is RFC 7386's MergePatch, word for word.
func applied(target any, patch any) any {
	fields, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	result := map[string]any{}
	if old, ok := target.(map[string]any); ok {
		for key, value := range old {
			result[key] = value
		}
	}
	for key, value := range fields {
		if value == nil {
			delete(result, key)
		} else {
			result[key] = applied(result[key], value)
		}
	}
	return result
}
