package xds

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// version tells one content of a resource from another, in every replica alike.
// That of a resource which is not there is 0.
type version uint64

// absent is the version of what an Envoy asked for and was told is not there.
const absent version = 1

func versionOf(content []byte) version {
	sum := sha256.Sum256(content)
	// 0 and absent have their meaning.
	return max(version(binary.BigEndian.Uint64(sum[:])), absent+1)
}

func (v version) String() string { return fmt.Sprintf("%016x", uint64(v)) }

// parseVersion returns a version that an Envoy says it has; absent for one that
// is none of ours. Text after a space is not part of it (see versionText).
func parseVersion(text string) version {
	text, _, _ = strings.Cut(text, " ")
	n, err := strconv.ParseUint(text, 16, 64)
	if err != nil {
		return absent
	}
	return version(n)
}

// combined stands for a set of resources, in any order: it is changed by adding
// what came and what went.
func combined(set version, name string, v version) version {
	return set ^ versionOf(append([]byte(name), v.String()...))
}

// renderer makes resources and their versions. Versions of clusters and
// assignments are made of what these are made of, so that they need not be made
// to be compared.
type renderer struct {
	*envoy.Translator
	clusterForm, assignmentForm version // what this build makes of a sample
}

func newRenderer(t *envoy.Translator) renderer {
	address := []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:80")}
	h1 := &routes.Backend{Cluster: "a/b/c", Endpoints: routes.Endpoints{Ready: address}}
	h2 := &routes.Backend{Cluster: "a/b/c", Endpoints: routes.Endpoints{Protocol: routes.H2C}}
	return renderer{
		Translator:  t,
		clusterForm: versionOf(append(marshal(t.Cluster(h1)), marshal(t.Cluster(h2))...)),
		assignmentForm: versionOf(append(marshal(t.Endpoints(h1, envoy.Fallback{Addresses: address})),
			marshal(t.Endpoints(h1, envoy.Fallback{Addresses: address, OverTLS: true}))...)),
	}
}

// overTLS stands, in versions, for a fallback over TLS: it is no address.
var overTLS = []netip.AddrPort{{}}

func (r *renderer) clusterVersion(b *routes.Backend) version {
	content := binary.BigEndian.AppendUint64(nil, uint64(r.clusterForm))
	content = append(content, byte(b.Protocol))
	return versionOf(append(content, b.Cluster...))
}

func (r *renderer) assignmentVersion(b *routes.Backend, fallback envoy.Fallback) version {
	content := make([]byte, 0, 256)
	content = binary.BigEndian.AppendUint64(content, uint64(r.assignmentForm))
	content = append(content, b.Cluster...)
	ready := b.Ready
	last := fallback.Addresses
	if len(last) == 0 {
		ready = b.Active()
	} else if fallback.OverTLS {
		last = overTLS // whatever they are
	}
	for _, list := range [][]netip.AddrPort{ready, last} {
		content = append(content, 0)
		for _, address := range list {
			content = address.AppendTo(content)
			content = append(content, ' ')
		}
	}
	return versionOf(content)
}

func (r *renderer) assignment(b *routes.Backend, fallback envoy.Fallback) []byte {
	return marshal(r.Endpoints(b, fallback))
}

// marshal gives the same bytes for the same message, in this build.
func marshal(m proto.Message) []byte {
	content, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("a message of our own cannot be marshaled: %v", err)) // a text that is not UTF-8, which Kubernetes has none of
	}
	return content
}
