package registration

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// refusedGroups are the API groups that give rights: who could create such an object would have
// all that the controller has.
var refusedGroups = []string{"rbac.authorization.k8s.io", "authorization.openshift.io"}

// GroupKind names a kind of object as an admin writes it: by its resource, as RBAC and kubectl do
// (workflows.argoproj.io), or by its kind (Workflow.argoproj.io). It is in lower case.
type GroupKind struct{ Word, Group string }

// String is how it is written.
func (g GroupKind) String() string { return strings.TrimSuffix(g.Word+"."+g.Group, ".") }

// ParseGroupKind reads a value of --allow-resource.
func ParseGroupKind(text string) (GroupKind, error) {
	word, group, _ := strings.Cut(strings.ToLower(text), ".")
	g := GroupKind{word, group}
	switch {
	case len(validation.IsDNS1035Label(word)) > 0 || group != "" && len(validation.IsDNS1123Subdomain(group)) > 0:
		return GroupKind{}, fmt.Errorf("--allow-resource %q: want one kind of object with its API group, such as workflows.argoproj.io", text)
	case slices.Contains(refusedGroups, group):
		return GroupKind{}, fmt.Errorf("--allow-resource %q: objects of %s give rights: who edits a Rollout would then have all those of the controller", text, group)
	}
	return g, nil
}

// GuessResource is what an access review asks for: the resource, which is a guess where the admin
// has written the kind.
func (g GroupKind) GuessResource() string {
	if word := g.Word; !strings.HasSuffix(word, "s") || strings.HasSuffix(word, "ss") {
		plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Version: "v1", Kind: word})
		return GroupKind{plural.Resource, g.Group}.String()
	}
	return g.String()
}

// MayBe tells whether it may name a kind. Without a cluster the resource is a guess, which Is
// makes sure of.
func (g GroupKind) MayBe(kind schema.GroupKind) bool {
	plural, singular := meta.UnsafeGuessKindToResource(kind.WithVersion("v1"))
	return g.Group == kind.Group && slices.Contains([]string{plural.Resource, singular.Resource}, g.Word)
}

// Is tells whether it names a kind whose resource is known.
func (g GroupKind) Is(kind schema.GroupKind, resource string) bool {
	return g.Group == kind.Group && (g.Word == strings.ToLower(kind.Kind) || g.Word == resource)
}
