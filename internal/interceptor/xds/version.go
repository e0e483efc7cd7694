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

// version identifies the content of a resource, in every replica alike. 0 is the version
// of a resource that is not there.
type version uint64

// absent is the version of a resource that an Envoy asked for and was told is not there.
const absent version = 1

func versionOf(content []byte) version {
	sum := sha256.Sum256(content)
	// 0 and absent are reserved.
	return max(version(binary.BigEndian.Uint64(sum[:])), absent+1)
}

func (v version) String() string { return fmt.Sprintf("%016x", uint64(v)) }

// parseVersion returns a version that an Envoy says it has; absent for a text that is not
// from an interceptor. Text after a space is not part of it (see versionText).
func parseVersion(text string) version {
	text, _, _ = strings.Cut(text, " ")
	n, err := strconv.ParseUint(text, 16, 64)
	if err != nil {
		return absent
	}
	return version(n)
}

// combined returns the version of a set of resources, in any order, after a resource came
// or went: adding and removing are the same operation.
func combined(set version, name string, v version) version {
	return set ^ versionOf(append([]byte(name), v.String()...))
}

// renderer makes resources and their versions. The version of a cluster or an assignment
// is a hash of its inputs, so that these resources need not be made to be compared.
type renderer struct {
	*envoy.Translator
	clusterSample, assignmentSample version // of what this build makes of a sample
}

func newRenderer(t *envoy.Translator) renderer {
	address := []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:80")}
	h1 := &routes.Backend{Cluster: "a/b/c", Endpoints: routes.Endpoints{Ready: address}}
	h2 := &routes.Backend{Cluster: "a/b/c", Endpoints: routes.Endpoints{Protocol: routes.H2C}}
	return renderer{
		Translator:    t,
		clusterSample: versionOf(append(marshal(t.Cluster(h1)), marshal(t.Cluster(h2))...)),
		assignmentSample: versionOf(append(marshal(t.Endpoints(h1, envoy.Fallback{Addresses: address})),
			marshal(t.Endpoints(h1, envoy.Fallback{Addresses: address, OverTLS: true}))...)),
	}
}

// overTLS stands, in versions, for a fallback over TLS. It is not a valid address.
var overTLS = []netip.AddrPort{{}}

func (r *renderer) clusterVersion(b *routes.Backend) version {
	content := binary.BigEndian.AppendUint64(nil, uint64(r.clusterSample))
	content = append(content, byte(b.Protocol))
	return versionOf(append(content, b.Cluster...))
}

func (r *renderer) assignmentVersion(b *routes.Backend, fallback envoy.Fallback) version {
	content := make([]byte, 0, 256)
	content = binary.BigEndian.AppendUint64(content, uint64(r.assignmentSample))
	content = append(content, b.Cluster...)
	ready := b.Ready
	last := fallback.Addresses
	if len(last) == 0 {
		ready = b.Active()
	} else if fallback.OverTLS {
		last = overTLS // the addresses make no difference
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
		panic(fmt.Sprintf("a message of our own cannot be marshaled: %v", err)) // a text is not UTF-8, but all texts of Kubernetes are
	}
	return content
}
