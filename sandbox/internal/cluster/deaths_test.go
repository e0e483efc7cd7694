package cluster

import (
	"strings"
	"testing"
)

func TestDeathsSince(t *testing.T) {
	status := func(components ...ComponentStatus) *Status { return &Status{Components: components} }
	died := ComponentStatus{Name: Etcd, State: StateRunning, Deaths: 2, LastDeath: "ended with signal: killed", LastLog: "last words"}
	for name, tt := range map[string]struct {
		before, after *Status
		want          []string // texts of the one death
	}{
		"none":          {nil, status(ComponentStatus{Name: Etcd, State: StateRunning}), nil},
		"stopped":       {nil, status(ComponentStatus{Name: Etcd, State: StateStopped}), nil},
		"died":          {nil, status(died), []string{Etcd, "2 times", "signal: killed", "last words"}},
		"died since":    {status(ComponentStatus{Name: Etcd, Deaths: 1}), status(died), []string{Etcd, "1 times"}},
		"died before":   {status(died), status(died), nil},
		"another since": {status(ComponentStatus{Name: APIServer, Deaths: 2}), status(died), []string{Etcd, "2 times"}},
		"is dead still": {status(ComponentStatus{Name: Node, Deaths: 1}), status(ComponentStatus{Name: Node, Deaths: 1, State: StateDied}), []string{Node, "does not run"}},
	} {
		got := deathsSince(tt.before, tt.after)
		if len(tt.want) == 0 && len(got) > 0 || len(tt.want) > 0 && len(got) != 1 {
			t.Errorf("%s: %q", name, got)
			continue
		}
		for _, text := range tt.want {
			if !strings.Contains(got[0], text) {
				t.Errorf("%s: %q does not say %q", name, got[0], text)
			}
		}
	}
}
