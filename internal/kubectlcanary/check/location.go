package check

import (
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
)

// The controller's image has its working directory here, and keeps plugins below it.
const (
	homeDirectory   = "/home/argo-rollouts"
	pluginDirectory = "plugin-bin"
)

var sha256Text = regexp.MustCompile(`^[0-9a-f]{64}$`)

// checkLocation: the location and its sha256 are what they have to be. Of what else may be
// wrong with them the controller's log speaks at its start.
func checkLocation(c controllerSnapshot, p pluginSnapshot) []Result {
	item := p.item(c)
	if item == nil {
		return nil
	}
	at, edit, shown := c.configObject(), c.editConfig(), withoutCredentials(item.Location)
	u, err := url.ParseRequestURI(item.Location)
	if err != nil || u.Host == "" && u.Scheme != "file" { // err quotes a part of the location, perhaps the password
		return []Result{failure(at, fmt.Sprintf("location %q is no URL", shown), "set the URL of the release asset for the controller's platform: "+edit)}
	}
	isFile := u.Scheme == "file"
	var results []Result
	switch {
	case !isFile && u.Scheme != "http" && u.Scheme != "https":
		results = append(results, failure(at, fmt.Sprintf("location %q is not one that Argo Rollouts takes: http, https or file", shown), "correct it: "+edit))
	case isFile && copiedOntoItself(p.name, u):
		results = append(results, failure(at,
			fmt.Sprintf("location %q is the path that the controller copies the plugin to: copying a file onto itself truncates it, and the controller does not start", shown),
			"let the init container write elsewhere (as deploy/local does), and name that: "+edit))
	}
	if u.User != nil {
		results = append(results, warning(at, fmt.Sprintf("location %q carries credentials: whoever reads the ConfigMap has them, and the controller writes them to its log", shown),
			"put a header with them into a Secret, name that under headersFrom, and take them out of location: "+edit))
	}
	switch {
	case item.Sha256 != "" && isFile:
		results = append(results, warning(at, "sha256 is set, but Argo Rollouts does not compare it for file:// locations", "take it out, or serve the binary over https: "+edit))
	case item.Sha256 == "" && !isFile:
		results = append(results, warning(at, "sha256 is not set: the controller runs whatever the location serves", "pin it with the asset's line of checksums.txt (`check --download` prints it): "+edit))
	case item.Sha256 != "" && !sha256Text.MatchString(item.Sha256):
		results = append(results, failure(at, fmt.Sprintf("sha256 %q is not 64 hexadecimal digits in small letters, so it never matches", item.Sha256), "paste the line of the asset from the release's checksums.txt: "+edit))
	}
	if len(results) == 0 {
		results = append(results, ok(at, shown))
	}
	return results
}

// copiedOntoItself tells whether a file is where the controller puts the plugin of that name.
func copiedOntoItself(name string, file *url.URL) bool {
	from := file.Host + file.Path
	if !path.IsAbs(from) {
		from = path.Join(homeDirectory, from)
	}
	return path.Clean(from) == path.Join(homeDirectory, pluginDirectory, name)
}

// assetPlatform finds the platform in an asset's name, such as
// rollouts-plugin-kedify-linux-amd64.
var assetPlatform = regexp.MustCompile(`(linux|darwin|windows|freebsd)[-_](amd64|arm64|arm|386|ppc64le|s390x|riscv64)[^/]*$`)

// checkPlatform: the asset is built for the nodes that the controller runs on. One whose
// name does not say its platform is not looked at.
func checkPlatform(c controllerSnapshot, p pluginSnapshot) []Result {
	item := p.item(c)
	if item == nil {
		return nil
	}
	asset := assetPlatform.FindStringSubmatch(strings.ToLower(item.Location))
	if asset == nil {
		return nil
	}
	var results []Result
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		node := c.nodes[name]
		is := node.Value.Status.NodeInfo
		switch {
		case node.Err != nil:
			results = append(results, couldNotLook("Node "+name, node.Err))
		case asset[1] == is.OperatingSystem && asset[2] == is.Architecture:
			results = append(results, ok(c.configObject(), fmt.Sprintf("location says %s/%s, as is node %s", asset[1], asset[2], name)))
		default:
			results = append(results, failure(c.configObject(), fmt.Sprintf("location says %s/%s, the controller's node %s is %s/%s: the plugin cannot be run", asset[1], asset[2], name, is.OperatingSystem, is.Architecture),
				fmt.Sprintf("use the asset …-%s-%s and its sha256: %s", is.OperatingSystem, is.Architecture, c.editConfig())))
		}
	}
	return results
}
