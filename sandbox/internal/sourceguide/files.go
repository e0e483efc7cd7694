package sourceguide

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/page"
)

// PluginFile is the name of the file with option B.
const PluginFile = "plugin.yaml"

// Platform is the platform of this machine, as in the names of a release's files.
const Platform = "linux-" + runtime.GOARCH

// released are the files of a release that the commands of Uninstall name, and the
// directories in deploy that they are made of.
var released = map[string]string{
	"install-" + Platform + ".yaml": "rbac",
	"agent.yaml":                    "agent",
	"agent-uninstall.yaml":          "agent-uninstall",
}

// WriteFiles writes the files that the commands name to a directory: the sample, option
// B with the URL and the SHA-256 of a plugin, and files of a release, made from the
// repository.
func WriteFiles(ctx context.Context, directory, repository, url, sum string) error {
	files := map[string]string{ManifestsFile: Manifests, PluginFile: Plugin(url, sum)}
	for file, from := range released {
		text, err := exec.CommandContext(ctx, "kubectl", "kustomize", filepath.Join(repository, "deploy", from)).Output()
		if err != nil {
			return fmt.Errorf("kubectl kustomize deploy/%s: %w", from, err)
		}
		files[file] = string(text)
	}
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(directory, file), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Uninstall returns the commands of docs/how-to/install.md that remove the plugin and then
// the agent.
func Uninstall(repository string) ([]page.Step, error) {
	text, err := os.ReadFile(filepath.Join(repository, "docs", "how-to", "install.md"))
	if err != nil {
		return nil, err
	}
	fences, err := page.Parse(string(text))
	if err != nil {
		return nil, err
	}
	return page.Named(page.Steps(fences), "remove-plugin", "remove-permission", "remove-agent")
}
