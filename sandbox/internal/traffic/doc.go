// Package traffic sends a steady stream of HTTP requests and keeps books on
// them: each request that was sent has an entry, with which backend answered it
// or with what went wrong. It also says what shares of them a split allows.
//
// It is a client that hides nothing: no request is sent a second time, as
// net/http does where a connection breaks. It needs no more than an address to
// dial, so that it works wherever that can be reached, inside a sandbox as well.
package traffic
