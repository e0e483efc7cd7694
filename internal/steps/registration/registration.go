// Package registration reads the args under which argo-rollouts-config registers the step
// plugin.
package registration

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kedify/argo-rollouts-plugin/internal/nearest"
	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/outbound"
)

// Registration is what the args of an entry under stepPlugins say.
type Registration struct {
	rolloutsplugin.Flags
	// Kind is the first argument, such as "http".
	Kind   string
	Preset Preset
	// AllowHosts are where requests may go, besides the preset's hosts.
	AllowHosts []string
	// AllowAddresses are addresses that requests may go to though they are loopback,
	// link-local or of a metadata service.
	AllowAddresses []netip.Prefix
	// AllowNamespaces are those whose Rollouts a Rollout of another namespace may wait for;
	// "*" is all of them.
	AllowNamespaces []string
	// SecretsNamespace is the one other namespace of which a preset may name Secrets.
	SecretsNamespace string
	// Name is the registered name, where the args say it.
	Name string
}

// Preset says where a preset is: in a ConfigMap, in a file, or nowhere.
type Preset struct {
	Namespace, Name string
	File            string
}

// IsSet tells whether there is a preset.
func (p Preset) IsSet() bool { return p != Preset{} }

// String is the preset as people write it: namespace/name or /path.
func (p Preset) String() string {
	if p.File != "" || !p.IsSet() {
		return p.File
	}
	return p.Namespace + "/" + p.Name
}

// Args are the flags of a registration before they have been read.
type Args struct {
	allowNamespaces                []string
	flags                          rolloutsplugin.Flags
	preset, secretsNamespace, name string
	allowHosts, allowAddresses     []string
}

// AddTo adds the flags of a registration.
func (a *Args) AddTo(flags *pflag.FlagSet) {
	a.flags.AddTo(flags)
	flags.StringVar(&a.preset, "preset", "", "defaults of the steps: namespace/name of a ConfigMap, or /path of a file")
	flags.StringArrayVar(&a.allowHosts, "allow-host", nil, "host that requests may go to, such as ci.example.com, *.example.com or ci.example.com:8443; once for each")
	flags.StringArrayVar(&a.allowAddresses, "allow-address", nil, "address or CIDR that requests may go to though it is loopback, link-local or of a metadata service; once for each")
	flags.StringArrayVar(&a.allowNamespaces, "allow-namespace", nil, "namespace whose Rollouts a Rollout of another namespace may wait for, or *; once for each")
	flags.StringVar(&a.secretsNamespace, "secrets-namespace", "", "the one other namespace of which a preset may name Secrets")
	flags.StringVar(&a.name, "name", "", "the name under which argo-rollouts-config registers the plugin (default: that of its file)")
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
	r := Registration{Flags: a.flags, AllowHosts: a.allowHosts, AllowNamespaces: a.allowNamespaces, SecretsNamespace: a.secretsNamespace, Name: a.name}
	var problems []string // on one line, as a Rollout's status shows them
	fail := func(err error) {
		if err != nil {
			problems = append(problems, err.Error())
		}
	}
	list := strings.Join(kinds, ", ")
	switch {
	case len(beside) == 0:
		fail(fmt.Errorf("args name no kind of step: want one of %s first", list))
	case len(strings.Fields(beside[0])) > 1:
		fail(fmt.Errorf("argument %q has spaces: each argument is an item of its own in args", beside[0]))
	case !slices.Contains(kinds, beside[0]):
		fail(fmt.Errorf("kind %q is not known: want one of %s%s", beside[0], list, meant(beside[0], kinds)))
	default:
		r.Kind = beside[0]
	}
	for _, flag := range a.unused(r.Kind) {
		fail(fmt.Errorf("--%s does nothing for steps of the kind %s: take it away", flag, r.Kind))
	}
	if len(beside) > 1 {
		fail(fmt.Errorf("argument %q: want one kind, and flags alone beside it", beside[1]))
	}
	fail(a.flags.Validate())
	var err error
	r.Preset, err = parsePreset(a.preset)
	fail(err)
	for _, host := range a.allowHosts {
		if _, err := outbound.ParseHosts([]string{host}); err != nil {
			fail(fmt.Errorf("--allow-host %w", err))
		}
	}
	for _, text := range a.allowAddresses {
		prefix, err := parseAddress(text)
		fail(err)
		r.AllowAddresses = append(r.AllowAddresses, prefix)
	}
	for _, namespace := range a.allowNamespaces {
		if wrong := validation.IsDNS1123Label(namespace); namespace != "*" && len(wrong) > 0 {
			fail(fmt.Errorf("--allow-namespace %q: want the name of one namespace, or *: %s", namespace, strings.Join(wrong, "; ")))
		}
	}
	if wrong := validation.IsDNS1123Label(a.secretsNamespace); a.secretsNamespace != "" && len(wrong) > 0 {
		fail(fmt.Errorf("--secrets-namespace %q: want the name of one namespace: %s", a.secretsNamespace, strings.Join(wrong, "; ")))
	}
	if len(problems) > 0 {
		return r, errors.New(strings.Join(problems, "; "))
	}
	return r, nil
}

// unused returns the flags that are set and do nothing for a kind. An admin who has set such
// a flag believes that it restricts the steps, and it does not.
func (a *Args) unused(kind string) []string {
	ofHTTP := map[string]bool{"allow-host": len(a.allowHosts) > 0, "allow-address": len(a.allowAddresses) > 0, "secrets-namespace": a.secretsNamespace != ""}
	ofRollouts := map[string]bool{"allow-namespace": len(a.allowNamespaces) > 0, "watch-namespace": a.flags.WatchNamespace != ""}
	others := map[string][]map[string]bool{"http": {ofRollouts}, "job": {ofHTTP, ofRollouts}, "rollouts": {ofHTTP}}
	var unused []string
	for _, flags := range others[kind] {
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
		return errors.New("--help: a registration has a kind and its flags alone")
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

func parsePreset(text string) (Preset, error) {
	switch namespace, name, ok := strings.Cut(text, "/"); {
	case text == "":
		return Preset{}, nil
	case path.IsAbs(text):
		return Preset{File: text}, nil
	case !ok || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0:
		return Preset{}, fmt.Errorf("--preset %q: want namespace/name of a ConfigMap, or /path of a file", text)
	default:
		return Preset{Namespace: namespace, Name: name}, nil
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
