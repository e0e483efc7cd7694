package outbound

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
)

// nameServer answers DNS queries for addresses. Each query for a name takes the next
// answer; the last one stays. An answer may hold "fail4" or "fail6", which fails the queries
// for IPv4 or IPv6 addresses.
type nameServer struct {
	mu      sync.Mutex
	answers map[string][]string
}

// newNameServer starts a nameServer, and returns a resolver that queries it.
func newNameServer(t *testing.T, answers map[string][]string) *net.Resolver {
	t.Helper()
	s := &nameServer{answers: answers}
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go s.serve(conn)
	return &net.Resolver{PreferGo: strict.PreferGo, StrictErrors: strict.StrictErrors, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func (s *nameServer) serve(conn net.PacketConn) {
	buffer := make([]byte, 1500)
	for {
		n, from, err := conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		if answer := s.answer(buffer[:n]); answer != nil {
			_, _ = conn.WriteTo(answer, from)
		}
	}
}

// answer answers a message of one question (RFC 1035).
func (s *nameServer) answer(query []byte) []byte {
	if len(query) < 17 {
		return nil
	}
	var labels []string
	at := 12
	for query[at] != 0 {
		end := at + 1 + int(query[at])
		labels = append(labels, string(query[at+1:end]))
		at = end
	}
	question := query[12 : at+5]
	kind := binary.BigEndian.Uint16(query[at+1:])
	name := strings.ToLower(strings.Join(labels, "."))
	addresses, known, failed := s.next(name, kind)
	header := []byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, byte(len(addresses)), 0, 0, 0, 0}
	switch {
	case !known:
		header[3] |= 3 // no such name
	case failed:
		header[3] |= 2 // the server has failed
	}
	message := slices.Concat(header, question)
	for _, address := range addresses {
		raw := address.AsSlice()
		message = append(message, 0xc0, 12)
		message = binary.BigEndian.AppendUint16(message, kind)
		message = append(message, 0, 1, 0, 0, 0, 0, 0, byte(len(raw)))
		message = append(message, raw...)
	}
	return message
}

// next returns the addresses of the kind asked for: 1 is IPv4, 28 IPv6.
func (s *nameServer) next(name string, kind uint16) (addresses []netip.Addr, known, failed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answers, known := s.answers[name]
	if !known {
		return nil, false, false
	}
	for _, text := range strings.Fields(answers[0]) {
		if strings.HasPrefix(text, "fail") {
			failed = failed || text == map[uint16]string{1: "fail4", 28: "fail6"}[kind]
			continue
		}
		if address := netip.MustParseAddr(text); address.Is4() == (kind == 1) {
			addresses = append(addresses, address)
		}
	}
	// IPv4 and IPv6 are queried at the same time; only the query that gets addresses uses
	// up an answer.
	if len(answers) > 1 && len(addresses) > 0 {
		s.answers[name] = answers[1:]
	}
	return addresses, true, failed
}
