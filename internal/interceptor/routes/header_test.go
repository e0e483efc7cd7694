package routes

import "testing"

func TestCheckHeader(t *testing.T) {
	tests := map[string]struct {
		name, value string
		want        Header
		wantErr     string
	}{
		"name in lower case":         {name: "X-Canary", value: "Yes", want: Header{"x-canary", "Yes"}},
		"blanks around a value":      {name: "a", value: " b\t", want: Header{"a", "b"}},
		"any value":                  {name: "a", value: "", want: Header{"a", ""}},
		"value beyond ASCII":         {name: "a", value: "é", want: Header{"a", "é"}},
		"no name":                    {name: "", value: "x", wantErr: "no name"},
		"colon":                      {name: ":authority", value: "x", wantErr: "not a header's name"},
		"blank in the name":          {name: "a b", value: "x", wantErr: "not a header's name"},
		"line break in the value":    {name: "a", value: "x\r\ny: z", wantErr: "control character"},
		"the host":                   {name: "Host", value: "x", wantErr: "spec.hosts"},
		"a header of connections":    {name: "Transfer-Encoding", value: "chunked", wantErr: "one connection"},
		"an upgrade can be seen":     {name: "Upgrade", value: "websocket", want: Header{"upgrade", "websocket"}},
		"tab within a value stays":   {name: "a", value: "b\tc", want: Header{"a", "b\tc"}},
		"name with every mark there": {name: "!#$%&'*+-.^_`|~", value: "", want: Header{"!#$%&'*+-.^_`|~", ""}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := checkHeader(tt.name, tt.value)
			checkResult(t, "checkHeader", tt.name, got.Name+": "+got.Value, err, tt.want.Name+": "+tt.want.Value, tt.wantErr)
		})
	}
}

func TestHeaderIsIn(t *testing.T) {
	tests := []struct {
		values []string
		want   string
		in     bool
	}{
		{[]string{"a"}, "a", true},
		{[]string{"a", "b"}, "a", true},
		{[]string{"a", "b"}, "b", true},
		{[]string{"a", "b"}, "a,b", false},
		{[]string{"a,b"}, "a,b", true},
		{[]string{"a,b"}, "a", false},
		{[]string{"A"}, "a", false},
		{[]string{"a"}, "", true},
		{[]string{""}, "", true},
		{[]string{""}, "a", false},
		{nil, "", false},
		{nil, "a", false},
	}
	for _, tt := range tests {
		w := wantedHeader{key: "H", value: tt.want}
		if got := w.in(tt.values); got != tt.in {
			t.Errorf("%q is in %q: %t", tt.want, tt.values, got)
		}
	}
}
