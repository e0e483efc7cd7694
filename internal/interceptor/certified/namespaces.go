// Package certified reads from the certificate of a kedify-proxy which namespaces it
// is for. A certificate names each by a URI as subject alternative name:
//
//	spiffe://<trust domain>/ns/<namespace>/sa/kedify-proxy
//
// or all of them with * as namespace, which no issuer of SPIFFE IDs gives to a pod.
// The trust domain is not checked: the authority that signed the certificate decides.
package certified

import (
	"crypto/tls"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Expected says, for messages, how a certificate has to name a namespace.
const Expected = "a URI spiffe://<trust domain>/ns/<namespace>/sa/kedify-proxy among the certificate's subject alternative names for each namespace, or one with * as namespace for all"

// every is the name that stands for all namespaces.
const every = "*"

// Namespaces are those that a verified certificate names. The zero value has none.
type Namespaces struct {
	all   bool
	names []string // sorted, each once
}

// Of returns the namespaces that the certificate of a connection's peer names; none
// without a certificate that was verified.
func Of(state *tls.ConnectionState) (n Namespaces) {
	if state == nil || len(state.VerifiedChains) == 0 {
		return n
	}
	for _, uri := range state.PeerCertificates[0].URIs {
		switch name := namespaceOf(uri); name {
		case "":
		case every:
			n.all = true
		default:
			n.names = append(n.names, name)
		}
	}
	slices.Sort(n.names)
	n.names = slices.Compact(n.names)
	return n
}

// namespaceOf returns the namespace that a URI names, and "" for none. It refuses
// escaped characters in the path, so that a segment is what it looks like.
func namespaceOf(uri *url.URL) string {
	if uri.Scheme != "spiffe" || uri.Host == "" || uri.Port() != "" || uri.User != nil || uri.RawQuery != "" || uri.ForceQuery || uri.Fragment != "" {
		return ""
	}
	name, found := strings.CutPrefix(uri.EscapedPath(), "/ns/")
	name, is := strings.CutSuffix(name, "/sa/kedify-proxy")
	if !found || !is || name != every && len(validation.IsDNS1123Label(name)) > 0 {
		return ""
	}
	return name
}

// Any tells whether the certificate names at least one namespace, or all.
func (n Namespaces) Any() bool { return n.all || len(n.names) > 0 }

// All tells whether the certificate names all namespaces.
func (n Namespaces) All() bool { return n.all }

// Has tells whether the certificate names a namespace, or all.
func (n Namespaces) Has(namespace string) bool {
	_, found := slices.BinarySearch(n.names, namespace)
	return n.all || found
}

// Names returns the names of the namespaces, sorted. The caller must not change them.
func (n Namespaces) Names() []string { return n.names }

// String lists the namespaces, for messages.
func (n Namespaces) String() string {
	switch {
	case n.all:
		return "all namespaces"
	case len(n.names) == 0:
		return "no namespace"
	default:
		return Few(n.names)
	}
}

// Few lists the first of some names, and says how many more there are.
func Few(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
