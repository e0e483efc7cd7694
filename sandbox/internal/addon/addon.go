// Package addon says what a part of the sandbox beyond the bare cluster has to
// tell of itself: what it is built from, which images it brings, what is applied
// for it, and how one sees that it is ready. Each such part is a package in
// sandbox/addons; everything else knows them from here alone.
package addon

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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
	// Needs names the add-ons that come with it. Their manifests are there
	// before its own.
	Needs []string
	// After names add-ons that come before it if the sandbox has them.
	After []string
	// Version is the release that it is built from. If it is not empty, another
	// one can be asked for, by a flag of the add-on's name.
	Version string

	// Prepare builds, downloads or finds what the add-on needs of this machine,
	// outside the sandbox and before it is up.
	Prepare func(context.Context, Host) (Prepared, error)
	// Programs are those that may be given to Prepare in Host.Programs, to be taken
	// instead of built or downloaded.
	Programs []Program
	// Commands names those of the paths that are programs for the PATH of
	// commands run inside.
	Commands []string
	// Releases names those of the paths that are served as files of that name at
	// http://releases.sandbox/.
	Releases []string
	// Images are the images that the add-on brings.
	Images func(context.Context, Paths) ([]image.Entry, error)
	// Manifests are the objects to apply. They may also change those of the
	// add-ons that it needs, which the Cluster has.
	Manifests func(context.Context, *Cluster) ([]Manifests, error)
	// Ready are the workloads that have to be ready before the sandbox is.
	Ready []Workload
}

// Program is a program of an add-on that can be given.
type Program struct {
	// Name is its name in Host.Programs and on PATH.
	Name string
	// Variable is the environment variable that names its path for end-to-end
	// tests.
	Variable string
	// Built is where `make build` puts it, relative to the repository's root: the
	// one that end-to-end tests take. Empty leaves it to Prepare.
	Built string
}

// Prepared is what an add-on has on this machine.
type Prepared struct {
	// Paths are by names of the add-on's own: a program's is the one it has on
	// PATH.
	Paths Paths
	// Version is the release of somebody else's programs, such as "v1.10.1".
	Version string
}

// Paths are absolute paths of programs, files and directories, by a name.
type Paths map[string]string

// Manifests are objects to apply; those of a namespaced kind that name no
// namespace go into Namespace.
type Manifests struct {
	Namespace string
	Objects   []*unstructured.Unstructured
}

// Workload is a Deployment, a DaemonSet or a Job that an add-on waits for.
type Workload struct {
	Kind, Namespace, Name string
	// Health is a port and path, such as ":8080/healthz", that has to answer 200
	// over HTTP at one of its pods. Empty asks for what Kubernetes says only.
	Health string
}
