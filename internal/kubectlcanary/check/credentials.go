package check

import (
	"net/url"
	"regexp"
	"strings"
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

// hideCredentials takes the credentials of URLs out of results, such as one that a server
// redirects to.
func hideCredentials(results []Result) {
	for i := range results {
		for _, text := range []*string{&results[i].Object, &results[i].Message, &results[i].Remedy} {
			*text = userInURL.ReplaceAllString(*text, "${1}"+hidden+"@")
			*text = queryInURL.ReplaceAllString(*text, "${1}?"+hidden)
		}
	}
}
