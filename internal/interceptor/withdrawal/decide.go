package withdrawal

// state is what an interceptor can do for Envoys.
type state int

const (
	// unavailable is an interceptor that is withdrawn, drains, has no table or does not
	// answer.
	unavailable state = iota
	// stale is one that serves its last table, and has lost the API server.
	stale
	// current is one whose table follows the API server.
	current
)

var stateNames = [...]string{unavailable: "unavailable", stale: "stale", current: "current"}

// contact is how an interceptor sees the API server. Neither holds for a while after it was
// lost, and after it is seen again.
type contact struct {
	// lost tells that the API server has not been seen for the timeout.
	lost bool
	// sees tells that the API server is seen, and its changes are in the table.
	sees bool
	// steady tells that it has been seen for the timeout without a break.
	steady bool
}

// withdraw decides whether an interceptor is to be withdrawn. best is the best state of
// another interceptor.
//
// An interceptor withdraws only in favour of one that is current. A withdrawn one comes
// back at once if it is better than all others, so that there is always one that serves.
// Otherwise it waits until its contact is steady: an Envoy that moves between two
// interceptors that come and go would see old splits again.
func withdraw(withdrawn bool, c contact, best state) bool {
	if !withdrawn {
		return c.lost && best == current
	}
	own := stale
	if c.sees {
		own = current
	}
	return !c.steady && best >= own
}
