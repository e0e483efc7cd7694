package check

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	plugintypes "github.com/argoproj/argo-rollouts/utils/plugin/types"
	"sigs.k8s.io/yaml"
)

// hidden replaces credentials in a report.
const hidden = "***"

var (
	userInURL  = regexp.MustCompile(`(\w[\w+.-]*://)[^\s/?#"']*@`)
	queryInURL = regexp.MustCompile(`(\w[\w+.-]*://[^\s?"']*)\?[^\s"']+`)
)

// withoutCredentials returns a location as it may be printed: without a user's name
// and password, and without the query, in which servers take tokens and signatures.
// If the location is no URL, it leaves out everything up to the last @.
func withoutCredentials(location string) string {
	before, rest := "", location
	if scheme, after, found := strings.Cut(location, "://"); found {
		before, rest = scheme+"://", after
	}
	u, err := url.Parse(location)
	misread := err != nil || before == "" || u.Host == "" && u.Scheme != "file" || strings.Contains(u.RawQuery, "@")
	if at := strings.LastIndex(rest, "@"); at >= 0 && (misread || u.User != nil) {
		if !misread {
			at = strings.Index(rest, "@"+u.Host)
		}
		rest = hidden + rest[at:]
	}
	if path, query, found := strings.Cut(rest, "?"); found && query != "" {
		rest = path + "?" + hidden
	}
	return before + rest
}

// hidesUser tells whether a location names a user, or looks as if it did.
func hidesUser(location string) bool {
	return strings.Contains(withoutCredentials(location), hidden+"@")
}

// hideCredentials takes the credentials of URLs out of results: those of the
// locations in the ConfigMap in every form in which a message may quote them, and
// those of any other URL, such as one that a server redirects to.
func hideCredentials(data map[string]string, results []Result) {
	var locations []string
	for _, key := range []string{trafficRouterPlugins, metricProviderPlugins, stepPlugins} {
		var items []plugintypes.PluginItem
		if err := yaml.Unmarshal([]byte(data[key]), &items); err != nil {
			continue // reported by plugin-registered; its URLs are found below
		}
		for _, item := range items {
			locations = append(locations, item.Location)
		}
	}
	// If one location begins with another, the longer one is replaced first.
	slices.SortFunc(locations, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	var pairs []string
	for _, location := range locations {
		shown := oneLine(withoutCredentials(location))
		if shown == location || location == "" {
			continue
		}
		quoted := strconv.Quote(location)
		for _, form := range []string{location, oneLine(location), quoted[1 : len(quoted)-1]} {
			pairs = append(pairs, form, shown)
		}
	}
	replacer := strings.NewReplacer(pairs...)
	for i := range results {
		for _, text := range []*string{&results[i].Object, &results[i].Message, &results[i].Remedy} {
			*text = replacer.Replace(*text)
			*text = userInURL.ReplaceAllString(*text, "${1}"+hidden+"@")
			*text = queryInURL.ReplaceAllString(*text, "${1}?"+hidden)
		}
	}
}
