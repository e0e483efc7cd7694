package steps

import "testing"

func TestNeedsStable(t *testing.T) {
	for config, want := range map[string]bool{
		`{"url": "{{ .images.old.app }}"}`:                true,
		`{"url": "{{ index .images \"old\" }}"}`:          true,
		`{"found": "response.text == images.old.app"}`:    true,
		`{"found": "images[\"old\"].app != nil"}`:         true,
		`{"url": "https://gold.example.com/threshold"}`:   false,
		`{"url": "{{ .hash.old }}"}`:                      false,
		`{"url": "https://images.gold.example.com/hold"}`: false,
	} {
		if got := NeedsStable([]byte(config)); got != want {
			t.Errorf("%s: got %v", config, got)
		}
	}
}
