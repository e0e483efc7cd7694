package routes

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// AllowedNamespacesAnnotation lists the namespaces, with commas between, whose
// HTTPScaledObjects may be served for the hosts that this one owns; "*" is all. Of all
// objects that name a host, only the annotation of the oldest counts.
const AllowedNamespacesAnnotation = "http.kedify.io/allowed-namespaces"

// anyNamespace allows all.
const anyNamespace = "*"

// checkAllowed reads AllowedNamespacesAnnotation.
func (d *checkedObject) checkAllowed(annotations map[string]string) []string {
	text := annotations[AllowedNamespacesAnnotation]
	if strings.TrimSpace(text) == "" {
		return nil
	}
	var allowed []string
	invalid := 0
	for entry := range strings.SplitSeq(text, ",") {
		namespace, err := allowedNamespace(strings.TrimSpace(entry))
		if err == nil {
			allowed = append(allowed, namespace)
		} else if invalid++; invalid <= mostNamed {
			d.problems = append(d.problems, d.problem(InvalidAllowedNamespaces, "metadata.annotations["+AllowedNamespacesAnnotation+"]", "%v; it allows nobody", err))
		}
	}
	slices.Sort(allowed)
	if allowed = slices.Compact(allowed); len(allowed) > 0 && allowed[0] == anyNamespace {
		return allowed[:1]
	}
	return allowed
}

func allowedNamespace(entry string) (string, error) {
	if entry != anyNamespace && len(validation.IsDNS1123Label(entry)) > 0 {
		return "", fmt.Errorf("%.64q is not a namespace; expected names with commas between, as in team-a,team-b, or * for all", entry)
	}
	return entry, nil
}

// allows tells whether objects of a namespace may be served for the hosts that m owns.
func (m *matcher) allows(namespace string) bool {
	if namespace == m.name.Namespace || len(m.allowed) > 0 && m.allowed[0] == anyNamespace {
		return true
	}
	_, found := slices.BinarySearch(m.allowed, namespace)
	return found
}
