package xds

import (
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// message is a response as it is sent. Its resources are not copied: all streams that
// send a virtual host share its bytes, also while their Envoys do not read.
type message mem.BufferSlice

// codec is gRPC's codec for protobuf, which also takes a message, and refuses requests that
// would take far more memory than they have bytes.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

// Marshal is part of encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, is := v.(message); is {
		return mem.BufferSlice(m), nil
	}
	return c.CodecV2.Marshal(v)
}

// The numbers of fields, in the API of Envoy and in anypb.Any.
const (
	responseResources = 2 // of both kinds of DiscoveryResponse
	resourceAny       = 2 // of Resource
	anyTypeURL        = 1
	anyValue          = 2
)

// message encodes a response as a DiscoveryResponse.
func (r *response) message() message {
	m := r.begin(marshal(&discoveryv3.DiscoveryResponse{TypeUrl: typeURLs[r.kind], Nonce: r.nonce, VersionInfo: r.textOf(r.version)}))
	for _, is := range r.resources {
		m = is.appendTo(m, r.kind, nil)
	}
	return m
}

// deltaMessage encodes a response as a DeltaDiscoveryResponse.
func (r *response) deltaMessage() message {
	m := r.begin(marshal(&discoveryv3.DeltaDiscoveryResponse{
		TypeUrl: typeURLs[r.kind], Nonce: r.nonce, SystemVersionInfo: r.textOf(r.version), RemovedResources: r.removed,
	}))
	for _, is := range r.resources {
		m = is.appendTo(m, r.kind, marshal(&discoveryv3.Resource{Name: is.name, Version: r.textOf(is.version)}))
	}
	return m
}

func (r *response) begin(head []byte) message {
	m := make(message, 0, 1+2*len(r.resources))
	return append(m, mem.SliceBuffer(head))
}

// appendTo appends a resource to a message: as an Any or, with a head that has its name and
// version, as a Resource.
func (is *resource) appendTo(m message, k kind, head []byte) message {
	value := is.content.Len()
	url := protowire.AppendTag(nil, anyTypeURL, protowire.BytesType)
	url = protowire.AppendString(url, typeURLs[k])
	url = protowire.AppendTag(url, anyValue, protowire.BytesType)
	url = protowire.AppendVarint(url, uint64(value))
	if head != nil {
		head = protowire.AppendTag(head, resourceAny, protowire.BytesType)
		head = protowire.AppendVarint(head, uint64(len(url)+value))
	}
	before := protowire.AppendTag(make([]byte, 0, len(head)+len(url)+10), responseResources, protowire.BytesType)
	before = protowire.AppendVarint(before, uint64(len(head)+len(url)+value))
	before = append(append(before, head...), url...)
	return append(append(m, mem.SliceBuffer(before)), is.content...)
}
