package xds

import (
	"fmt"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// A decoded request takes far more memory than its bytes if it has very many empty names, or
// many small messages in its node: one of 15 MB took 600 MB. These bounds are far beyond
// what an Envoy sends.
const (
	// maxRequestFields bounds the fields of a request: two for each cluster at most.
	maxRequestFields = 250_000
	// maxRequestMessages bounds the bytes of its fields other than texts: the node, of which
	// Envoy sends 61 KB.
	maxRequestMessages = 256 << 10
)

// In both kinds of request, the fields from firstTexts to lastTexts are texts: names,
// versions, the type, or the nonce. One of the two after them is the google.rpc.Status of a
// refusal.
const (
	firstTexts, lastTexts   protowire.Number = 3, 5
	firstStatus, lastStatus protowire.Number = 6, 7
	statusMessage           protowire.Number = 2
)

// Unmarshal is part of encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if report, is := v.(*loadReport); is {
		*report = data.Materialize()
		return nil
	}
	content := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer content.Free()
	if err := checkRequest(content.ReadOnlyData()); err != nil {
		return err
	}
	return c.CodecV2.Unmarshal(mem.BufferSlice{content}, v)
}

// checkRequest fails for a request that would take too much memory.
func checkRequest(content []byte) error {
	fields, messages := 0, 0
	for len(content) > 0 {
		number, kind, n := protowire.ConsumeField(content)
		if n < 0 {
			return protowire.ParseError(n)
		}
		fields++
		switch {
		case number >= firstStatus && number <= lastStatus && kind == protowire.BytesType:
			_, _, tag := protowire.ConsumeTag(content)
			status, _ := protowire.ConsumeBytes(content[tag:])
			inner, others := statusFields(status)
			fields += inner
			messages += others
		case number < firstTexts || number > lastTexts:
			messages += n
		}
		content = content[n:]
	}
	if fields > maxRequestFields || messages > maxRequestMessages {
		return fmt.Errorf("a request of %d fields, %d bytes of which are no names or versions; expected %d and %d at most", fields, messages, maxRequestFields, maxRequestMessages)
	}
	return nil
}

// statusFields returns how many fields a Status has, and the bytes of those that are not its
// message.
func statusFields(content []byte) (fields, others int) {
	for len(content) > 0 {
		number, _, n := protowire.ConsumeField(content)
		if n < 0 {
			return fields, others + len(content)
		}
		if fields++; number != statusMessage {
			others += n
		}
		content = content[n:]
	}
	return fields, others
}
