package rolloutsstep

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/hashicorp/go-hclog"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// A step that waits for another cluster sends no requests, neither here nor there.
func TestStepThatWaitsForARegionSendsNoRequests(t *testing.T) {
	there := newTwoClusters(t) // whose Secret is put here, too
	c := newController(t, func(opts *Options) {
		opts.RegionOptions = RegionOptions{AllowAddresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, SecretsNamespace: "argo-rollouts"}
	})
	c.server.PutObject("secrets", there.here.Object("secrets", "argo-rollouts", "region-eu"))
	section := map[string]any{"clusters": []any{map[string]any{"name": "eu", "secret": "region-eu"}}}
	preset := &steps.Preset{Defaults: map[string]any{"rollouts": section}, Hosts: []string{"127.0.0.1"}}
	c.plugin = steps.New(steps.Options{Kind: c.kind, Presets: onePreset{preset}, Events: c, Logger: hclog.NewNullLogger(), CallWait: time.Minute})
	there.there.PutObject("rollouts", v2At(0))
	own := c.put(v2At(1, uid(ownUID)))
	for i := range 5 {
		result := c.run(own)
		if result.Phase != types.PhaseRunning || !strings.Contains(result.Message, "demo/b in eu is at step 1 of 3") {
			t.Fatalf("%s: %s", result.Phase, result.Message)
		}
		if got := requests(c.server) + requests(there.there); i > 0 && got != "" {
			t.Errorf("check %d costs %q", i+1, got)
		}
	}
	there.there.PutObject("rollouts", v2At(1))
	var result types.RpcStepResult
	for deadline := time.Now().Add(time.Minute); result.Phase != types.PhaseSuccessful; time.Sleep(20 * time.Millisecond) {
		if result = c.run(own); time.Now().After(deadline) {
			t.Fatalf("%s: %s", result.Phase, result.Message)
		}
	}
}
