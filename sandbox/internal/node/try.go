package node

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/podnet"
)

// Try runs a program, which must end with the exit code 0 when asked for --help, as
// the only container of a pod. SetUpNetwork comes first.
func Try(cfg Config, program string) error {
	network, err := podnet.NewPod("trial", cfg.firstPodIP(), cfg.NodeIP, cfg.PodCIDR)
	if err != nil {
		return err
	}
	defer func() { _ = network.Close() }()
	root := filepath.Join(cfg.StateDir, "trial")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	defer func() { _ = os.Remove(root) }()
	s := newSpawner()
	defer s.close()
	p, err := s.launchProcess(launch{
		Root: root, Hostname: "trial", WorkDir: "/", Argv: []string{"/program", "--help"},
		Mounts: []bindMount{{Source: program, Target: "/program", ReadOnly: true}},
	}, network.Namespace(), outputs{}, nil)
	if err != nil {
		return fmt.Errorf("trying a container: %w", err)
	}
	<-p.done
	if p.exitCode != 0 {
		return fmt.Errorf("trying a container: %s ended with exit code %d in it", program, p.exitCode)
	}
	return nil
}
