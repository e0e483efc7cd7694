// Package addon defines how an add-on, a part of the sandbox beyond the bare cluster,
// describes itself: what it is built from, which images it brings, which objects are
// applied for it, and how to tell that it is ready. Each add-on is a package in
// sandbox/addons; everything else knows it only by this description.
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
	// Needs names the add-ons that come with it. Their manifests are made before its
	// own.
	Needs []string
	// After names add-ons that come before it if the sandbox has them.
	After []string
	// Version is the release that it is built from. If it is set, a flag of the
	// add-on's name selects another release.
	Version string

	// Prepare builds, downloads or finds the files that the add-on needs on this
	// machine. It runs outside the sandbox, before the sandbox is up.
	Prepare func(context.Context, Host) (Prepared, error)
	// Programs are the programs that a caller may pass to Prepare in Host.Programs,
	// to be used instead of being built or downloaded.
	Programs []Program
	// Commands names the entries of Prepared.Paths that are programs for the PATH of
	// commands run inside.
	Commands []string
	// Releases names the entries of Prepared.Paths that are served at
	// http://releases.sandbox/, each as a file of that name.
	Releases []string
	// Images are the images that the add-on brings.
	Images func(context.Context, Paths) ([]image.Entry, error)
	// Manifests returns the objects to apply. It may also change objects of the
	// add-ons that it needs, which Cluster.Find returns.
	Manifests func(context.Context, *Cluster) ([]Manifests, error)
	// Ready are the workloads that have to be ready before the sandbox is.
	Ready []Workload
}

// Program is a program of an add-on that a caller can supply.
type Program struct {
	// Name is its name in Host.Programs and on PATH.
	Name string
	// Variable is the environment variable that names its path for end-to-end
	// tests.
	Variable string
	// Built is where `make build` puts it, relative to the repository's root.
	// End-to-end tests use that file; if Built is empty, Prepare provides the
	// program.
	Built string
}

// Prepared is the result of Addon.Prepare: the add-on's files on this machine.
type Prepared struct {
	// Paths are by names that the add-on chooses; a program's is its name on PATH.
	Paths Paths
	// Version is the release of another project's programs, such as "v1.10.1".
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
	// Health is a port and path, such as ":8080/healthz", that has to answer 200 over
	// HTTP at one of its pods. If it is empty, readiness in Kubernetes is enough.
	Health string
}
