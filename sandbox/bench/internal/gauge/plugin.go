package gauge

import (
	"fmt"
	"os/exec"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
)

// Plugin is a plugin of Argo Rollouts that was started as the controller starts it.
type Plugin struct {
	*plugin.Client
	// Served is the interface over which it is called.
	Served any
}

// StartPlugin starts a plugin. The cookie and the key are those of its kind; client is
// Argo Rollouts' half of the RPC. InitPlugin is left to the caller.
func StartPlugin(cmd *exec.Cmd, cookie, key string, client plugin.Plugin) (*Plugin, error) {
	p := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: plugin.HandshakeConfig{ProtocolVersion: 1, MagicCookieKey: "ARGO_ROLLOUTS_RPC_PLUGIN", MagicCookieValue: cookie},
		Plugins:         map[string]plugin.Plugin{key: client},
		Cmd:             cmd,
		Managed:         true,
		Logger:          hclog.NewNullLogger(),
	})
	protocol, err := p.Client()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cmd.Path, err)
	}
	served, err := protocol.Dispense(key)
	if err != nil {
		p.Kill()
		return nil, fmt.Errorf("%s: %w", cmd.Path, err)
	}
	return &Plugin{Client: p, Served: served}, nil
}

// Resident returns the plugin's resident memory, in MB (10^6 bytes).
func (p *Plugin) Resident() (float64, error) { return Resident(p.ReattachConfig().Pid) }
