package kedify_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/kedify"
)

func TestParseConfig(t *testing.T) {
	tests := map[string]struct {
		config  string
		want    []string
		wantErr string
	}{
		"one":                    {config: `{"httpScaledObjectName":"myapp"}`, want: []string{"myapp"}},
		"several":                {config: `{"httpScaledObjects":[{"name":"a"},{"name":"b.c"}]}`, want: []string{"a", "b.c"}},
		"nothing":                {config: `{}`, wantErr: "httpScaledObjectName is missing"},
		"null":                   {config: `null`, wantErr: "want an object with httpScaledObjectName or httpScaledObjects, got null"},
		"no object":              {config: `["a"]`, wantErr: "got a list"},
		"no JSON":                {config: `{`, wantErr: "got no valid JSON"},
		"empty input":            {config: ``, wantErr: "got no valid JSON"},
		"mistyped":               {config: `{"httpScaledObjectNmae":"a"}`, wantErr: `unknown key "httpScaledObjectNmae": did you mean "httpScaledObjectName"?`},
		"mistyped list":          {config: `{"httpScaledObject":[{"name":"a"}]}`, wantErr: `unknown key "httpScaledObject": did you mean "httpScaledObjects"?`},
		"wrong case":             {config: `{"httpscaledobjectname":"a"}`, wantErr: `unknown key "httpscaledobjectname": did you mean "httpScaledObjectName"?`},
		"one key too many":       {config: `{"httpScaledObjectName":"a","namespace":"b"}`, wantErr: `unknown key "namespace"`},
		"mistyped in the list":   {config: `{"httpScaledObjects":[{"name":"a"},{"nam":"b"}]}`, wantErr: `unknown key "httpScaledObjects[1].nam": did you mean "httpScaledObjects[1].name"?`},
		"both":                   {config: `{"httpScaledObjectName":"a","httpScaledObjects":[{"name":"b"}]}`, wantErr: "exclude each other"},
		"empty name":             {config: `{"httpScaledObjectName":""}`, wantErr: "httpScaledObjectName is empty"},
		"name of another type":   {config: `{"httpScaledObjectName":7}`, wantErr: "httpScaledObjectName: want the name of an HTTPScaledObject, got a number"},
		"name null":              {config: `{"httpScaledObjectName":null}`, wantErr: "got null"},
		"invalid name":           {config: `{"httpScaledObjectName":"My_App"}`, wantErr: `"My_App" is no valid object name`},
		"twice":                  {config: `{"httpScaledObjects":[{"name":"a"},{"name":"b"},{"name":"a"}]}`, wantErr: `httpScaledObjects[2].name: "a" is listed twice`},
		"empty list":             {config: `{"httpScaledObjects":[]}`, wantErr: "httpScaledObjects is empty"},
		"list of another type":   {config: `{"httpScaledObjects":"a"}`, wantErr: "httpScaledObjects: want a list of {name: …}, got a string"},
		"entry of another type":  {config: `{"httpScaledObjects":["a"]}`, wantErr: "httpScaledObjects[0]: want an object with name, got a string"},
		"entry without name":     {config: `{"httpScaledObjects":[{}]}`, wantErr: "httpScaledObjects[0].name is missing"},
		"entry with bad name":    {config: `{"httpScaledObjects":[{"name":"-"}]}`, wantErr: `httpScaledObjects[0].name: "-" is no valid object name`},
		"entry with number name": {config: `{"httpScaledObjects":[{"name":true}]}`, wantErr: "got a boolean"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			config, err := kedify.ParseConfig(json.RawMessage(tc.config))
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("error = %v, want one with %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, config.Names()); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzParseConfig: an accepted configuration names at least one object, none twice and
// none with an empty name; nothing panics.
func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(`{"httpScaledObjectName":"a"}`))
	f.Add([]byte(`{"httpScaledObjects":[{"name":"a"},{"name":"b"}]}`))
	f.Add([]byte(`{"httpScaledObjects":[{"nmae":"a"}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		config, err := kedify.ParseConfig(raw)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without a word")
			}
			return
		}
		names := slices.Sorted(slices.Values(config.Names()))
		if len(names) == 0 || names[0] == "" || len(slices.Compact(names)) != len(config.Names()) {
			t.Errorf("%s accepted as %q", raw, config.Names())
		}
	})
}
