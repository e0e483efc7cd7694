// Package traffic sends a steady stream of HTTP requests and keeps books on
// them: each request that was sent has an entry that says which backend answered
// it, or what went wrong. It also says which shares of the requests a split allows.
//
// The client hides no failure: it never retries a request, as net/http does when a
// connection breaks. It needs only an address to dial, so that it works wherever
// that address can be reached, inside a sandbox as well.
package traffic
