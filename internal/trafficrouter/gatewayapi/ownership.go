package gatewayapi

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter"
)

// Owner is one registration of the plugin in a Rollout. A Rollout may have several, each
// with a configuration and an entry in Annotation of its own.
type Owner = trafficrouter.Owner

// keyOf is the key of an owner's entry: namespace/name, and the plugin unless it is
// DefaultPluginName.
func keyOf(o Owner) string {
	if o.Plugin == "" || o.Plugin == DefaultPluginName {
		return o.Rollout.String()
	}
	return o.Rollout.String() + " " + o.Plugin
}

// ownerOf reads the key of an entry.
func ownerOf(key string) Owner {
	rollout, plugin, _ := strings.Cut(key, " ")
	namespace, name, _ := strings.Cut(rollout, "/")
	return Owner{Rollout: types.NamespacedName{Namespace: namespace, Name: name}, Plugin: cmp.Or(plugin, DefaultPluginName)}
}

// describeOwner names an owner for a message.
func describeOwner(o Owner) string {
	if o.Plugin == "" || o.Plugin == DefaultPluginName {
		return "Rollout " + o.Rollout.String()
	}
	return fmt.Sprintf("Rollout %s (plugin %s)", o.Rollout, o.Plugin)
}

// ForeignError says that another Rollout, or another registration of the same, splits a
// rule, according to the route's annotation. If the owner is gone, or does not use the
// route any more, Release takes its traffic off and frees the rule.
type ForeignError struct {
	// Route names kind, namespace and name; Rule is the rule in it.
	Route, Rule string
	// Refused is who asked, Owner has the rule.
	Refused, Owner Owner
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s: %s is split by %s, and cannot be split by %s, too: wait for the other to finish, or give each Rollout a rule of its own", e.Route, e.Rule, describeOwner(e.Owner), describeOwner(e.Refused))
}

func quoted(names []string) string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = strconv.Quote(name)
	}
	return strings.Join(list, " or ")
}
