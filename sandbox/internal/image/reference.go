package image

import (
	"fmt"
	"strings"
)

// Reference is an image reference taken apart.
type Reference struct {
	// Repository is the name without tag and digest and without the parts
	// that may be left out on Docker Hub: "argoproj/rollouts-demo", "nginx",
	// "quay.io/argoproj/argo-rollouts".
	Repository string
	// Tag is "latest" when the reference names none.
	Tag string
	// Digest is "sha256:…", or empty.
	Digest string
}

// String is the short form of the reference.
func (r Reference) String() string {
	s := r.Repository + ":" + r.Tag
	if r.Digest != "" {
		s += "@" + r.Digest
	}
	return s
}

// Parse takes an image reference apart and normalises it: "docker.io/",
// "index.docker.io/" and "library/" are dropped, the tag is "latest" when there
// is none. The error says what is wrong with the reference.
func Parse(ref string) (Reference, error) {
	rest, digest, hasDigest := strings.Cut(ref, "@")
	if hasDigest && !strings.Contains(digest, ":") {
		return Reference{}, fmt.Errorf("image %q: digest %q is not of the form algorithm:hex", ref, digest)
	}
	repository, tag := rest, "latest"
	// A colon before the last slash belongs to a registry's port.
	if i := strings.LastIndexByte(rest, ':'); i > strings.LastIndexByte(rest, '/') {
		repository, tag = rest[:i], rest[i+1:]
		if tag == "" {
			return Reference{}, fmt.Errorf("image %q: the tag after the colon is empty", ref)
		}
	}
	for _, host := range []string{"docker.io/", "index.docker.io/", "registry-1.docker.io/"} {
		if after, ok := strings.CutPrefix(repository, host); ok {
			repository = strings.TrimPrefix(after, "library/")
			break
		}
	}
	repository = strings.TrimPrefix(repository, "library/")
	if repository == "" || strings.HasPrefix(repository, "/") || strings.HasSuffix(repository, "/") ||
		strings.ContainsAny(repository, " \t\n") || strings.ToLower(repository) != repository {
		return Reference{}, fmt.Errorf("image %q: %q is not a repository name", ref, repository)
	}
	return Reference{Repository: repository, Tag: tag, Digest: digest}, nil
}
