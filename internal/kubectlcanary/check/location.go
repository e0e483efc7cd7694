package check

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"
)

// pluginDirectory is where the controller keeps plugins, below its working
// directory.
const pluginDirectory = "plugin-bin"

var (
	sha256Text  = regexp.MustCompile(`^[0-9a-f]{64}$`)
	sha256Upper = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)
)

// checkLocation: the location is one that the controller can fetch, and the
// sha256 one that it can compare.
func checkLocation(c controllerSnapshot, p pluginSnapshot) []Result {
	item := itemOf(c, p.router)
	if item == nil {
		return nil
	}
	at := c.configObject()
	edit := fmt.Sprintf("kubectl -n %s edit configmap %s, then %s", c.configNamespace, configMapName, c.restartCommand())
	location, sum := item.Location, item.Sha256
	if location == "" {
		return []Result{failure(at, "location is missing", "set the URL of the release asset for the controller's platform: "+edit)}
	}
	u, err := url.ParseRequestURI(location)
	if err != nil {
		message := fmt.Sprintf("location %q is no URL", location)
		// The reason quotes a part of it, which may be the password.
		if reason := (*url.Error)(nil); errors.As(err, &reason) && !hidesUser(location) {
			message += ": " + reason.Err.Error()
		}
		return []Result{failure(at, message, "set the URL of the release asset for the controller's platform: "+edit)}
	}
	var results []Result
	switch u.Scheme {
	case "http", "https":
		results = checkRemote(at, u, sum, edit)
	case "file":
		results = checkFile(at, c, p.router, u, sum, edit)
	default:
		if !strings.Contains(location, "://") { // what stands for the scheme may be a user's name
			results = []Result{failure(at, fmt.Sprintf("location %q has no scheme: Argo Rollouts takes http, https and file", location), "begin it with https://: "+edit)}
			break
		}
		results = []Result{failure(at, fmt.Sprintf("location %q has the scheme %q: Argo Rollouts takes http, https and file", location, u.Scheme), "correct it: "+edit)}
	}
	if sum != "" && !sha256Text.MatchString(sum) {
		message := fmt.Sprintf("sha256 %q is not 64 hexadecimal digits", sum)
		if sha256Upper.MatchString(sum) {
			message = "sha256 has capital letters: Argo Rollouts compares it as text with small ones, so it never matches"
		}
		results = append(results, failure(at, message, "paste the line of the asset from the release's checksums.txt: "+edit))
	}
	if len(results) == 0 {
		results = append(results, ok(at, location))
	}
	return results
}

func checkRemote(at string, u *url.URL, sum, edit string) []Result {
	var results []Result
	switch {
	case u.Host == "":
		results = append(results, failure(at, fmt.Sprintf("location %q names no host", u), "correct it: "+edit))
	case strings.Contains(u.Path, "/releases/tag/"), strings.Contains(u.Path, "/blob/"):
		results = append(results, failure(at, fmt.Sprintf("location %q is a web page about the file, not the file", u), "copy the link of the asset itself (…/releases/download/…): "+edit))
	case strings.HasSuffix(u.Path, "checksums.txt"), strings.HasSuffix(u.Path, "/"):
		results = append(results, failure(at, fmt.Sprintf("location %q is not the plugin's binary", u), "copy the link of the asset itself: "+edit))
	}
	if u.User != nil {
		results = append(results, warning(at, fmt.Sprintf("location %q carries credentials: whoever reads the ConfigMap has them, and the controller writes them to its log", u),
			"put a header with them into a Secret, name that under headersFrom, and take them out of location: "+edit))
	}
	if sum == "" {
		results = append(results, warning(at, "sha256 is not set: the controller runs whatever the location serves", "pin it with the asset's line of checksums.txt (`check --download` prints it): "+edit))
	}
	return results
}

func checkFile(at string, c controllerSnapshot, of router, u *url.URL, sum, edit string) []Result {
	var results []Result
	from := u.Host + u.Path
	if !path.IsAbs(from) {
		from = path.Join(c.workingDirectory(), from)
	}
	from = path.Clean(from)
	to := path.Join(c.workingDirectory(), pluginDirectory, of.name)
	if from == to {
		results = append(results, failure(at,
			fmt.Sprintf("location %q is the path that the controller copies the plugin to: copying a file onto itself truncates it, and the controller does not start", u),
			"let the init container write elsewhere, such as "+path.Join(c.workingDirectory(), pluginDirectory, of.asset)+" (as deploy/local does), and name that: "+edit))
	}
	if sum != "" {
		results = append(results, warning(at, "sha256 is set, but Argo Rollouts does not compare it for file:// locations", "take it out, or serve the binary over https: "+edit))
	}
	return results
}

// checkPluginDirectory: the controller can write the plugin to its disk.
func checkPluginDirectory(c controllerSnapshot) []Result {
	if c.deployment == nil {
		return nil
	}
	container := c.container()
	at := object("Deployment", c.deployment.Namespace, c.deployment.Name)
	directory := path.Join(c.workingDirectory(), pluginDirectory)
	add := fmt.Sprintf("mount an emptyDir at %s in container %s, as Argo Rollouts' own manifests do", directory, container.Name)
	for _, mount := range container.VolumeMounts {
		if !within(directory, mount.MountPath) {
			continue
		}
		if mount.ReadOnly {
			return []Result{failure(at, fmt.Sprintf("%s is mounted read-only: the controller cannot store the plugin", mount.MountPath), add)}
		}
		return []Result{ok(at, directory+" is writable")}
	}
	if sc := container.SecurityContext; sc != nil && sc.ReadOnlyRootFilesystem != nil && *sc.ReadOnlyRootFilesystem {
		return []Result{failure(at, "the root file system is read-only and no volume is mounted at "+directory+": the controller cannot store the plugin", add)}
	}
	return []Result{ok(at, directory+" is writable")}
}

// within tells whether file is mount or below it.
func within(file, mount string) bool {
	mount = path.Clean(mount)
	return file == mount || mount == "/" || strings.HasPrefix(file, mount+"/")
}
