// Package registration reads the args under which argo-rollouts-config registers the step
// plugin.
package registration

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kedify/argo-rollouts-plugin/internal/nearest"
	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/instead"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/outbound"
)

// Registration is what the args of an entry under stepPlugins say.
type Registration struct {
	rolloutsplugin.Flags
	// Kind is the kind of all steps, such as "http"; empty where each step says its own, and
	// may name a preset.
	Kind string
	// Preset is the ConfigMap with the preset of all steps where there is a Kind; its name is
	// empty for none.
	Preset types.NamespacedName
	// PresetsNamespace is where the presets are that steps name; empty means the controller's
	// own.
	PresetsNamespace string
	// AllowKinds are the kinds of step that a Rollout may name without a preset; all if there
	// are none.
	AllowKinds []string
	// AllowHosts are where requests may go, and those to other clusters, besides the preset's
	// hosts.
	AllowHosts []string
	// AllowAddresses are addresses that requests may go to though they are loopback,
	// link-local or of a metadata service.
	AllowAddresses []netip.Prefix
	// EgressProxy makes all requests; nil is none.
	EgressProxy *url.URL
	// AllowNamespaces are those whose Rollouts a Rollout of another namespace may wait for;
	// "*" is all of them.
	AllowNamespaces []string
	// AllowResources are the kinds of object that steps of the kind resource may create.
	AllowResources []GroupKind
	// SecretsNamespace is the one other namespace of which a preset may name Secrets.
	SecretsNamespace string
	// Name is the registered name, where the args say it.
	Name string
}

// Args are the flags of a registration before they have been checked.
type Args struct {
	r              Registration
	preset, proxy  string
	allowAddresses []string
	allowResources []string
}

// AddTo adds the flags of a registration.
func (a *Args) AddTo(flags *pflag.FlagSet) {
	a.r.AddTo(flags)
	flags.StringVar(&a.preset, "preset", "", "preset of all steps, for a registration with a kind: namespace/name of a ConfigMap (default: none)")
	flags.StringVar(&a.r.PresetsNamespace, "presets-namespace", "", "namespace of the presets that steps name (default: the controller's)")
	flags.StringArrayVar(&a.r.AllowKinds, "allow-kind", nil, "kind of step that a Rollout may have without a preset: http, job, resource or rollouts; once for each (default: all)")
	flags.StringArrayVar(&a.r.AllowHosts, "allow-host", nil, "for http, and clusters of rollouts: host that requests may go to, beside those of a preset: ci.example.com, *.example.com or ci.example.com:8443; once for each (default: none)")
	flags.StringArrayVar(&a.allowAddresses, "allow-address", nil, "as --allow-host: address or CIDR that requests may go to though it is loopback, link-local or of a metadata service, or private for a wildcard host; once for each (default: none)")
	flags.StringArrayVar(&a.r.AllowNamespaces, "allow-namespace", nil, "for rollouts: namespace whose Rollouts a Rollout of another namespace may wait for, or *; once for each (default: none)")
	flags.StringArrayVar(&a.allowResources, "allow-resource", nil, "for resource: kind of object that steps may create, also in presets, by its resource or its kind: workflows.argoproj.io or Workflow.argoproj.io; once for each (default: none)")
	flags.StringVar(&a.proxy, "egress-proxy", "", "as --allow-host: URL of the proxy that makes all requests, such as http://proxy.example.com:3128 (default: none)")
	flags.StringVar(&a.r.SecretsNamespace, "secrets-namespace", "", "for http: the one other namespace of which a preset may name Secrets; for rollouts: that of the Secrets of clusters (default: none)")
	flags.StringVar(&a.r.Name, "name", "", "registered name, by which lines of the log are found (default: the path where the controller has put the program)")
}

// Parse reads the args of a registration; kinds are the names of all kinds. The error is for
// a person who sees the args, and names the wrong one. With an error, the Registration has
// what could be read.
func Parse(args, kinds []string) (Registration, error) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	var a Args
	a.AddTo(flags)
	err := flags.Parse(args)
	r, problem := a.Registration(flags.Args(), kinds)
	if err != nil {
		return r, Unknown(flags, err)
	}
	return r, problem
}

// Registration reads the flags and the arguments beside them.
func (a *Args) Registration(beside, kinds []string) (Registration, error) {
	r := a.r
	var problems []string // on one line, as a Rollout's status shows them
	fail := func(err error) {
		if err != nil {
			problems = append(problems, err.Error())
		}
	}
	list := strings.Join(kinds, ", ")
	switch {
	case len(beside) == 0:
	case len(strings.Fields(beside[0])) > 1:
		fail(fmt.Errorf("argument %q has spaces: each argument is an item of its own in args", beside[0]))
	case instead.Of(beside[0], nil) != "":
		fail(fmt.Errorf("kind %q: %s; leave the kind out of args, and each step says its own", beside[0], instead.Of(beside[0], nil)))
	case !slices.Contains(kinds, beside[0]):
		fail(fmt.Errorf("kind %q is not known: want one of %s%s", beside[0], list, meant(beside[0], kinds)))
	default:
		r.Kind = beside[0]
	}
	for _, flag := range a.unused(r.Kind, len(beside) > 0) {
		of := "steps of the kind " + r.Kind
		if r.Kind == "" {
			of = "a registration without a kind"
		}
		fail(fmt.Errorf("--%s does nothing for %s: take it away", flag, of))
	}
	if len(beside) > 1 {
		fail(fmt.Errorf("argument %q: want one kind, and flags alone beside it", beside[1]))
	}
	fail(r.Validate())
	var err error
	r.Preset, err = parsePreset(a.preset)
	fail(err)
	for _, kind := range r.AllowKinds {
		if said := instead.Of(kind, nil); said != "" {
			fail(fmt.Errorf("--allow-kind %q: %s", kind, said))
		} else if !slices.Contains(kinds, kind) {
			fail(fmt.Errorf("--allow-kind %q: want one of %s%s", kind, list, meant(kind, kinds)))
		}
	}
	if a.proxy != "" {
		if r.EgressProxy, err = outbound.ParseProxy(a.proxy); err != nil {
			fail(fmt.Errorf("--egress-proxy: %w", err))
		}
	}
	for _, host := range r.AllowHosts {
		if _, err := outbound.ParseHosts([]string{host}); err != nil {
			fail(fmt.Errorf("--allow-host %w", err))
		}
	}
	for _, text := range a.allowAddresses {
		prefix, err := parseAddress(text)
		fail(err)
		r.AllowAddresses = append(r.AllowAddresses, prefix)
	}
	for _, namespace := range r.AllowNamespaces {
		if wrong := validation.IsDNS1123Label(namespace); namespace != "*" && len(wrong) > 0 {
			fail(fmt.Errorf("--allow-namespace %q: want the name of one namespace, or *: %s", namespace, strings.Join(wrong, "; ")))
		}
	}
	for _, text := range a.allowResources {
		allowed, err := ParseGroupKind(text)
		fail(err)
		r.AllowResources = append(r.AllowResources, allowed)
	}
	for flag, namespace := range map[string]string{"secrets-namespace": r.SecretsNamespace, "presets-namespace": r.PresetsNamespace} {
		if wrong := validation.IsDNS1123Label(namespace); namespace != "" && len(wrong) > 0 {
			fail(fmt.Errorf("--%s %q: want the name of one namespace: %s", flag, namespace, strings.Join(wrong, "; ")))
		}
	}
	if len(problems) > 0 {
		return r, errors.New(strings.Join(problems, "; "))
	}
	return r, nil
}

// unused returns the flags that are set and do nothing for a kind, or without one. An admin
// who has set such a flag believes that it restricts the steps, and it does not.
func (a *Args) unused(kind string, hasKind bool) []string {
	// Requests go to hosts, and so do the watches of other clusters.
	ofHosts := map[string]bool{"allow-host": len(a.r.AllowHosts) > 0, "allow-address": len(a.allowAddresses) > 0, "secrets-namespace": a.r.SecretsNamespace != "", "egress-proxy": a.proxy != ""}
	ofResource := map[string]bool{"allow-resource": len(a.allowResources) > 0}
	ofRollouts := map[string]bool{"allow-namespace": len(a.r.AllowNamespaces) > 0, "watch-namespace": a.r.WatchNamespace != ""}
	ofNone := map[string]bool{"allow-kind": len(a.r.AllowKinds) > 0, "presets-namespace": a.r.PresetsNamespace != ""}
	ofAny := map[string]bool{"preset": a.preset != ""}
	others := map[string][]map[string]bool{
		"http": {ofResource, ofRollouts, ofNone}, "job": {ofHosts, ofResource, ofRollouts, ofNone},
		"resource": {ofHosts, ofRollouts, ofNone}, "rollouts": {ofResource, ofNone},
	}[kind]
	if !hasKind {
		others = append(others, ofAny)
	}
	var unused []string
	for _, flags := range others {
		for flag, isSet := range flags {
			if isSet {
				unused = append(unused, flag)
			}
		}
	}
	slices.Sort(unused)
	return unused
}

// Unknown adds the nearest flag to the error about an unknown flag.
func Unknown(flags *pflag.FlagSet, err error) error {
	if errors.Is(err, pflag.ErrHelp) {
		return errors.New("--help: a registration has flags alone, and a kind where all its steps are to have that")
	}
	name, unknown := strings.CutPrefix(err.Error(), "unknown flag: --") // pflag 1.0.6 has no type for it
	if !unknown {
		return err
	}
	var known []string
	flags.VisitAll(func(flag *pflag.Flag) { known = append(known, flag.Name) })
	return fmt.Errorf("%w: did you mean --%s?", err, nearest.Word(name, known))
}

func meant(word string, known []string) string {
	if near := nearest.Word(word, known); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return ""
}

func parsePreset(text string) (types.NamespacedName, error) {
	switch namespace, name, ok := strings.Cut(text, "/"); {
	case text == "":
		return types.NamespacedName{}, nil
	case !ok || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0:
		return types.NamespacedName{}, fmt.Errorf("--preset %q: want namespace/name of a ConfigMap", text)
	default:
		return types.NamespacedName{Namespace: namespace, Name: name}, nil
	}
}

func parseAddress(text string) (netip.Prefix, error) {
	if address, err := netip.ParseAddr(text); err == nil && address.Zone() == "" {
		return netip.PrefixFrom(address, address.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("--allow-address %q: want an address or a CIDR, such as 127.0.0.1 or 10.0.0.0/8", text)
	}
	return prefix.Masked(), nil
}
