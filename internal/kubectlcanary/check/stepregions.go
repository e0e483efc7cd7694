package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/clusteraccess"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/lint"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/outbound"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/rolloutsstep"
)

// regionSnapshot is a cluster that a preset names.
type regionSnapshot struct {
	entry  lint.Entry
	preset types.NamespacedName
	hosts  []string
	rolloutsstep.Cluster
	// secret is the Secret with its credentials.
	secret read[corev1.Secret]
	// wrong is what is wrong with the Secret, or with where it leads.
	wrong error
	// from is where Rollouts can be read there with the credentials, or err why not.
	from string
	err  *readError
}

// regions returns the clusters that the presets of the registrations name, each once.
func (s snapshot) regions() []regionSnapshot {
	var all []regionSnapshot
	for _, e := range s.stepEntries() {
		if e.Wrong != nil {
			continue
		}
		for _, configMap := range s.steps.presets[s.presetsOf(e)].Value {
			preset, err := s.presetIn(e, configMap)
			if err != nil {
				continue // step-plugin-preset says so
			}
			for _, cluster := range clustersIn(e, preset) {
				all = append(all, regionSnapshot{
					entry: e, preset: types.NamespacedName{Namespace: s.presetsOf(e).Namespace, Name: configMap.Name}, hosts: preset.Hosts, Cluster: cluster,
				})
			}
		}
	}
	return all
}

// clustersIn returns the clusters that a preset names.
func clustersIn(e lint.Entry, preset *steps.Preset) []rolloutsstep.Cluster {
	var keys struct {
		Clusters []rolloutsstep.Cluster `json:"clusters"`
	}
	section := preset.Section("rollouts")
	if e.Registration.Kind == "rollouts" && string(section) == "null" {
		section, _ = json.Marshal(preset.Defaults) // the keys may stand beside the common ones
	}
	_ = json.Unmarshal(section, &keys) // step-plugin-preset says what is wrong
	return keys.Clusters
}

// gatherRegions reads the Secrets of the clusters that presets name, and looks whether their
// credentials read Rollouts there.
func gatherRegions(ctx context.Context, c *cluster, s snapshot) []regionSnapshot {
	all := s.regions()
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() { all[i].gather(ctx, c, s.namespace) })
	}
	wg.Wait()
	return all
}

func (r *regionSnapshot) gather(ctx context.Context, c *cluster, namespace string) {
	of := r.entry.Registration
	if of.SecretsNamespace == "" {
		return
	}
	r.secret = get[corev1.Secret](ctx, c, target{version: "v1", resource: "secrets", namespace: of.SecretsNamespace, name: r.Secret})
	if r.secret.Err != nil {
		return
	}
	access, err := clusteraccess.Read(r.secret.Value.Data)
	r.secret.Value = corev1.Secret{}
	var allowed, ofPreset outbound.Hosts
	if err == nil {
		allowed, err = outbound.ParseHosts(of.AllowHosts)
	}
	if err == nil {
		ofPreset, err = outbound.ParseHosts(r.hosts)
	}
	var config *rest.Config
	if err == nil {
		client := outbound.New(outbound.Options{Hosts: allowed, Addresses: of.AllowAddresses, Proxy: of.EgressProxy})
		config, err = access.Config(client, ofPreset, "kubectl-canary")
	}
	if r.wrong = err; err != nil {
		return
	}
	there, err := newCluster(config)
	if r.wrong = err; err != nil {
		return
	}
	for _, in := range []string{"", namespace} {
		if r.from = "in all namespaces"; in != "" {
			r.from = "in namespace " + in
		}
		if r.err = readsRollouts(ctx, there, in); r.err == nil || !r.err.forbidden() {
			return
		}
	}
}

// readsRollouts lists and watches the Rollouts of a namespace, or of all, as the plugin does.
func readsRollouts(ctx context.Context, c *cluster, namespace string) *readError {
	all := target{group: "argoproj.io", version: "v1alpha1", resource: "rollouts", namespace: namespace, query: map[string]string{"limit": "1"}}
	found := get[metav1.PartialObjectMetadataList](ctx, c, all)
	if found.Err != nil {
		return found.Err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	stream, err := c.client.Get().AbsPath(all.path()).Param("watch", "true").Param("timeoutSeconds", "1").
		Param("resourceVersion", found.Value.ResourceVersion).Stream(ctx)
	if err != nil {
		return all.failed("watch", err)
	}
	_ = stream.Close() // the plugin reads on
	return nil
}

// checkRegions: the clusters that presets name can be read.
func checkRegions(s snapshot) []Result {
	var results []Result
	for _, r := range s.steps.regions {
		if result := r.check(s); !slices.Contains(results, result) {
			results = append(results, result)
		}
	}
	return results
}

func (r regionSnapshot) check(s snapshot) Result {
	of := r.entry.Registration
	at := object("Secret", of.SecretsNamespace, r.Secret)
	is := fmt.Sprintf("is of the cluster %s, which the preset %s names", r.Name, r.preset.Name)
	cannot := func(why string) string { return fmt.Sprintf("%s, and steps cannot read that: %s", is, why) }
	edit := fmt.Sprintf("put a kubeconfig with another token there: docs/how-to/step-rollouts.md has the commands; or correct the preset: kubectl -n %s edit configmap %s", r.preset.Namespace, r.preset.Name)
	var refused *steps.Error
	switch {
	case of.SecretsNamespace == "":
		return failure(s.controller.configObject(), fmt.Sprintf("%s: the preset %s names the cluster %s, and no namespace has its Secret %s: steps cannot read that", r.entry.Name, r.preset.Name, r.Name, r.Secret),
			fmt.Sprintf("add --secrets-namespace=NAMESPACE to its args: kubectl -n %s edit configmap %s, then %s", s.controller.configNamespace, configMapName, s.controller.restartCommand()))
	case r.secret.Err.notFound():
		return failure(at, cannot("it does not exist"), edit)
	case r.secret.Err != nil:
		return couldNotLook(at, r.secret.Err)
	case errors.As(r.wrong, &refused) && strings.Contains(r.wrong.Error(), "--allow-host"):
		return failure(at, cannot(r.wrong.Error()), "allow the host, if it is the right one, or correct the Secret")
	case r.wrong != nil:
		return failure(at, cannot(r.wrong.Error()), edit)
	case r.err == nil:
		return ok(at, fmt.Sprintf("%s: its token reads Rollouts there %s", is, r.from))
	case apierrors.IsUnauthorized(r.err.Err):
		return failure(at, cannot("its API server does not accept the credentials (401)"), edit)
	case r.err.forbidden():
		return failure(at, cannot(r.err.Err.Error()), "apply deploy/rbac-regions/region.yaml (rbac-regions-region.yaml of a release) in that cluster, or bind its ClusterRole where Rollouts are")
	case r.err.notFound():
		return failure(at, cannot("it serves no Rollouts"), "install Argo Rollouts in that cluster, or correct the server in the Secret")
	case errors.As(r.err.Err, &refused) && refused.Final:
		return failure(at, cannot(refused.Error()), edit)
	default:
		return warning(at, fmt.Sprintf("%s, and from here that does not answer: %v", is, r.err.Err), "the controller may reach it: look at the message of a step that waits for it; or correct the server in the Secret")
	}
}
