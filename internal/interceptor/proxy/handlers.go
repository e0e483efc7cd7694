package proxy

import "net/http"

// handlers lists what happens to a request on its way to an application, the outermost
// first. Each handler is a method in a file of its own that calls the next one, or
// answers the request itself. See the package documentation for how to add one.
func (p *Proxy) handlers() []func(next http.Handler) http.Handler {
	return []func(http.Handler) http.Handler{
		p.recover,
		p.identify,
		p.logAccess,
		p.count,
		p.limitSendTime,
		p.readHandover,
		p.trace,
		p.refuseForMemory,
		p.validate,
		p.closeConnection,
		p.dropForwarded,
		p.match,
		p.shareMemory, // after match, as objects share what there is
		p.countLoad,
		p.hold,
		p.choose,
		p.limit,
	}
}

// chain puts the handlers before the last one, which is forward.
func chain(handlers []func(http.Handler) http.Handler, last http.Handler) http.Handler {
	for i := len(handlers) - 1; i >= 0; i-- {
		last = handlers[i](last)
	}
	return last
}

// ServeHTTP is part of http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	recorded, r := withRecord(w, r)
	p.handler.ServeHTTP(recorded, r)
}
