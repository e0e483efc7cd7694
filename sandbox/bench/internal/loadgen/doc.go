// Package loadgen sends requests for tiny answers to a proxy as fast as it answers
// them, and also runs the applications behind it: one thread, one epoll, no
// goroutine. A separate client and application that wait for one another would cost
// more than some of the proxies that are to be compared, and on two cores they share
// one.
//
// It is for measurements and knows no more of HTTP than they need: requests are
// the same bytes each time, answers have a Content-Length and the status 200;
// anything else is an error.
package loadgen
