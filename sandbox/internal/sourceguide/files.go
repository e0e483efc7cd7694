package sourceguide

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// PluginFile is the name of the file with option B.
const PluginFile = "plugin.yaml"

// released are the files of a release that commands of docs/guide.md name, and the
// directories in deploy that they are made of.
var released = map[string]string{
	"install-linux-amd64.yaml": "rbac",
	"agent.yaml":               "agent",
	"agent-uninstall.yaml":     "agent-uninstall",
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

// Uninstall returns the commands of docs/guide.md that uninstall the plugin and then the
// agent, but for the download of a file.
func Uninstall(repository string) ([]Step, error) {
	page, err := os.ReadFile(filepath.Join(repository, "docs", "guide.md"))
	if err != nil {
		return nil, err
	}
	_, text, found := strings.Cut(string(page), "\n### Uninstall the plugin\n")
	plugin, text, found2 := strings.Cut(text, "\n### Uninstall the agent\n")
	agent, _, found3 := strings.Cut(text, "\n## ")
	if !found || !found2 || !found3 {
		return nil, errors.New("docs/guide.md has no sections Uninstall the plugin and Uninstall the agent, one after the other")
	}
	var steps []Step
	for _, s := range append(Parse(plugin), Parse(agent)...) {
		// The last of the plugin's repairs what somebody has left.
		if !strings.HasPrefix(s.Commands, "curl ") && !strings.Contains(s.Commands, " -n mynamespace ") {
			steps = append(steps, s)
		}
	}
	return steps, nil
}
