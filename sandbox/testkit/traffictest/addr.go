package traffictest

// Addr is a net.Addr of host:port over TCP.
type Addr string

// Network is part of net.Addr.
func (Addr) Network() string { return "tcp" }

// String is part of net.Addr.
func (a Addr) String() string { return string(a) }
