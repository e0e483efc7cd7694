package check

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// platform is an operating system and an architecture in Go's words.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

var (
	osInName   = regexp.MustCompile(`(?i)(?:^|[^a-z])(linux|darwin|macos|windows|freebsd)(?:[^a-z]|$)`)
	archInName = regexp.MustCompile(`(?i)(?:^|[^a-z0-9])(amd64|x86_64|arm64|aarch64|armv7|arm|386|ppc64le|s390x|riscv64)(?:[^a-z0-9]|$)`)
	goNames    = map[string]string{"macos": "darwin", "x86_64": "amd64", "aarch64": "arm64", "armv7": "arm"}
)

// assetPlatform reads the platform from an asset's name, such as
// rollouts-plugin-kedify-linux-amd64. A part that the name does not say is
// empty.
func assetPlatform(location string) platform {
	name := location[strings.LastIndex(location, "/")+1:]
	part := func(re *regexp.Regexp) string {
		match := re.FindStringSubmatch(name)
		if match == nil {
			return ""
		}
		word := strings.ToLower(match[1])
		if goName, known := goNames[word]; known {
			return goName
		}
		return word
	}
	return platform{os: part(osInName), arch: part(archInName)}
}

// nodePlatforms returns the platform of each node that runs a controller pod.
func nodePlatforms(c controllerSnapshot) map[string]platform {
	found := map[string]platform{}
	for name, node := range c.nodes {
		if node.Err == nil {
			info := node.Value.Status.NodeInfo
			found[name] = platform{os: info.OperatingSystem, arch: info.Architecture}
		}
	}
	return found
}

// checkPlatform: the asset is built for the nodes that the controller runs on.
// The binary itself, when it was downloaded, says more than its name.
func checkPlatform(c controllerSnapshot, p pluginSnapshot) []Result {
	item, d := itemOf(c, p.router), p.download
	if item == nil || strings.HasPrefix(item.Location, "file:") {
		return nil
	}
	at := c.configObject()
	var results []Result
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		if node := c.nodes[name]; node.Err != nil {
			results = append(results, couldNotLook("Node "+name, node.Err))
		}
	}
	nodes := nodePlatforms(c)
	if len(nodes) == 0 {
		if len(results) == 0 {
			results = append(results, warning(at, "not checked: no node runs the controller yet", "see controller-found, then check again"))
		}
		return results
	}
	asset := assetPlatform(item.Location)
	says := fmt.Sprintf("location says %s", asset)
	if d != nil && d.binary != nil {
		asset, says = d.binary.platform, fmt.Sprintf("the binary is for %s", d.binary.platform)
	}
	edit := fmt.Sprintf("kubectl -n %s edit configmap %s, then %s", c.configNamespace, configMapName, c.restartCommand())
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		node := nodes[name]
		switch {
		case asset.os == "" || asset.arch == "":
			results = append(results, warning(at, fmt.Sprintf("the name in location %q does not say its platform; the controller's node %s is %s", item.Location, name, node), "run the check with --download to look into the binary"))
		case asset != node:
			results = append(results, failure(at, fmt.Sprintf("%s, the controller's node %s is %s: the plugin cannot be run", says, name, node),
				fmt.Sprintf("use the asset …-%s-%s and its sha256: %s", node.os, node.arch, edit)))
		default:
			results = append(results, ok(at, fmt.Sprintf("%s, as is node %s", asset, name)))
		}
	}
	return results
}
