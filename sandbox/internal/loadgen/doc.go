// Package loadgen asks a proxy for tiny answers as fast as it gives them, and is
// the applications behind it as well: one thread, one epoll, no goroutine. A
// client and an application that wait for one another would cost more than some
// of the proxies that are to be compared, and on two cores they share one.
//
// It is for measurements and knows no more of HTTP than they need: requests are
// the same bytes each time, answers have a Content-Length and the status 200;
// anything else is an error.
package loadgen
