package figures_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/loadreport"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/figures"
)

// Whatever interceptors say, in whatever order, the figures are numbers that are not below
// zero. Each byte of steps says what happens next.
func FuzzApply(f *testing.F) {
	f.Add([]byte(`{"sources":[{"id":"x","objects":[{"namespace":"shop","name":"app","requests":7,"active":1,"held":1}]}]}`),
		[]byte(`{"sources":[{"id":"y","address":"10.0.1.1","objects":[{"namespace":"shop","name":"app","requests":9223372036854775807,"active":-3},{"namespace":"shop","name":"app","gone":true}]}]}`),
		[]byte{0, 1, 2, 3, 4, 5, 6, 7, 8})
	f.Add([]byte(`{"sources":[{"id":"x","address":"10.0.1.1","ended":true},{"id":"x","withoutLoadReports":true}]}`), []byte(`{}`), []byte{1, 0, 9, 27, 81})
	f.Fuzz(func(t *testing.T, one, other, steps []byte) {
		var messages [2]loadreport.Message
		if json.Unmarshal(one, &messages[0]) != nil || json.Unmarshal(other, &messages[1]) != nil {
			return
		}
		c := start([]string{"a"}, envoy)
		windows := []figures.Window{minute, {Length: time.Hour, Granularity: time.Minute}, {Length: time.Second, Granularity: time.Millisecond}}
		for _, s := range steps[:min(len(steps), 100)] {
			switch interceptor := string('a' + rune(s/16%2)); s % 8 {
			case 0, 1, 2:
				c.Apply(interceptor, messages[s%2])
			case 3:
				c.Disconnected(interceptor)
			case 4:
				c.expect([]string{"a", "b"}[:1+s/16%2], envoy)
			case 5:
				c.expect([]string{interceptor})
			default:
				c.pass(time.Duration(s) * time.Duration(s) * 10 * time.Millisecond)
			}
			w := windows[int(s)%len(windows)]
			rate, _ := c.Rate(app, w)
			concurrency, _ := c.Concurrency(app)
			if rate < 0 || math.IsNaN(rate) || math.IsInf(rate, 0) || concurrency < 0 {
				t.Fatalf("the rate is %v, the concurrency %v", rate, concurrency)
			}
			if c.Held(app) && !c.Active(app, w) {
				t.Fatal("a request is held, and the object is not active")
			}
		}
	})
}
