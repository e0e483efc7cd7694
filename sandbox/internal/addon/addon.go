// Package addon defines how an add-on, a part of the sandbox beyond the bare cluster,
// describes itself: what it is built from, which images it brings, which objects are
// applied for it, and how to tell that it is ready. Each add-on is a package in
// sandbox/addons; everything else knows it only by this description.
package addon

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/build"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/image"
)

// Addon describes a part of the sandbox. Only Name and Summary are needed.
type Addon struct {
	// Name is what `sandbox up --with` calls it: lower-case letters, digits and
	// dashes.
	Name string
	// Summary says what it is, in a few words.
	Summary string
	// Default says that a sandbox has it unless it is brought up with --bare.
	Default bool
	// Needs names the add-ons that come with it. Their manifests are made before its
	// own.
	Needs []string
	// After names add-ons that come before it if the sandbox has them.
	After []string

	// Upstream is what it takes from another project: programs and files. Its Dir is
	// below sandbox/addons; its Name and its Version are filled in.
	Upstream *build.Source
	// Version is the release that the module in Upstream.Dir pins. If it is set, a flag
	// of the add-on's name selects another release.
	Version string
	// Files names files and directories among those that Upstream keeps, by their paths
	// there.
	Files map[string]string
	// Programs are the programs that a caller may pass in Host.Programs, to be used
	// instead of being built or found.
	Programs []Program
	// StandIns names programs of sandbox/cmd/images, of which its images are made.
	StandIns []string
	// Prepare finds what is none of these. It runs outside the sandbox, before the
	// sandbox is up.
	Prepare func(context.Context, Host) (Prepared, error)

	// Commands names the entries of Prepared.Paths that are programs for the PATH of
	// commands run inside.
	Commands []string
	// Releases are the files that are served at http://releases.sandbox/: by the name
	// there, the entry of Prepared.Paths.
	Releases map[string]string
	// Images are the images that the add-on brings. Their Files are from entries of
	// Prepared.Paths, by name.
	Images []image.Entry

	// Manifests returns the objects to apply. It may also change objects of the
	// add-ons that it needs, which Cluster.Find returns. What several add-ons bring is
	// put together by Combine. A sandbox is ready when all Deployments, DaemonSets,
	// StatefulSets and APIServices among the objects are.
	Manifests func(context.Context, *Cluster) ([]Manifests, error)
	// Defines names API groups: their definitions come from this add-on alone if a
	// sandbox has it. Those that other add-ons bring are left out.
	Defines []string
	// Ready are workloads that are not among its manifests, or that have to do more than
	// be ready in Kubernetes.
	Ready []Workload
	// Gateway is the Gateway that it makes if it implements the Gateway API. The tests
	// of e2e/contour run behind it if $GATEWAY names the add-on.
	Gateway *Gateway
}

// Program is a program of this project that a caller can supply.
type Program struct {
	// Name is its name in Host.Programs and on PATH. It is built from ./cmd/NAME.
	Name string
	// Variable is the environment variable that names its path for end-to-end
	// tests.
	Variable string
	// Built is where `make build` puts it, relative to the repository's root.
	// End-to-end tests use that file; if Built is empty, Prepare provides the
	// program.
	Built string
}

// Prepared is an add-on's files on this machine.
type Prepared struct {
	// Paths has the programs of Upstream, the Files, the Programs and the StandIns, each
	// by its name, and what Prepare has found.
	Paths Paths
	// Version is the release of another project's programs, such as "v1.10.1".
	Version string
	// Images are the add-on's, with paths on this machine. Prepare returns those that
	// depend on this machine.
	Images []image.Entry
}

// Paths are absolute paths of programs, files and directories, by a name.
type Paths map[string]string

// Manifests are objects to apply; those of a namespaced kind that name no
// namespace go into Namespace.
type Manifests struct {
	Namespace string
	Objects   []*unstructured.Unstructured
}

// Workload is a Deployment, a DaemonSet or a StatefulSet that the sandbox waits for.
type Workload struct {
	Kind, Namespace, Name string
	// Health is a port and path, such as ":8080/healthz", that has to answer 200 over
	// HTTP at one of its pods. If it is empty, readiness in Kubernetes is enough.
	Health string
}

// Gateway is a Gateway that routes can name.
type Gateway struct {
	Class, Namespace, Name string
	// Service leads to its proxies, in its namespace.
	Service string
	// Controller is the Deployment that serves it, in its namespace, with that many
	// replicas.
	Controller string
	Replicas   int
}
