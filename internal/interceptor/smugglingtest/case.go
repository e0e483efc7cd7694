// Package smugglingtest judges how a proxy treats requests that two servers in a row
// may interpret differently. It sends them to the proxy, reads the answers, and
// reads every byte that the proxy sent to the applications behind it.
//
// Nothing in it needs a cluster, so that the judge itself is tested with proxies
// that have one known fault each.
package smugglingtest

import (
	"fmt"
	"strings"
)

// A Case is one connection of a client: a request, or what looks like one, followed
// by a plain request for /after/SLUG of the other host. A proxy that has lost the
// boundary between the two, or relays bytes, sends the second one to the wrong
// application.
//
// Texts have placeholders: HOST is the host of the proxy, /CASE is /case/SLUG, TAIL
// is a complete request for /smuggled/SLUG, OTHERTAIL is the same to the other host,
// LENGTH is the length of TAIL in decimal digits and HEXLENGTH in hexadecimal ones.
// SLUG is the name of the case in the form that paths use.
type Case struct {
	Name string
	// Text is what is sent in HTTP/1.1; HTTP2 is used if it is empty.
	Text  string
	HTTP2 *HTTP2
	// Want is what the proxy has to do with the request.
	Want Outcome
	// Body is the body that the application has to get when the request is served.
	Body string
	// SecondMayFollow says that OTHERTAIL may be served as a second request, since some
	// servers see one there. The client has to get the answer to it.
	SecondMayFollow bool
	// MayArrive says that an application may get the whole request although it is
	// refused: the proxy sees the fault too late, or the application is what
	// refuses it.
	MayArrive bool
	// MayClose says that the proxy may close the connection without an answer.
	MayClose bool
	// Other says that the request is for the other application.
	Other bool
}

// HTTP2 is a request in HTTP/2, sent without any validation.
type HTTP2 struct {
	// Fields are added to those of a plain POST of /CASE, or replace the ones of
	// the same name.
	Fields [][2]string
	Body   string
}

// An Outcome is what a proxy may do with a request.
type Outcome int

const (
	// Refused requests are answered with a status that blames the request, and no
	// application gets a complete one.
	Refused Outcome = iota
	// Served requests are answered by the application that they are for.
	Served
	// RefusedOrServed requests may be either.
	RefusedOrServed
)

func (o Outcome) String() string {
	return [...]string{"refused", "served", "refused or served"}[o]
}

// slug is the name of the case as it stands in a path.
func (c Case) slug() string {
	return strings.NewReplacer(" ", "-", ",", "", ":", "", "/", "", ".", "", "'", "").Replace(c.Name)
}

// path is the path that the request of the case asks for.
func (c Case) path() string { return "/case/" + c.slug() }

func (c Case) fill(text, host string) string {
	tail := c.plain("smuggled", host, "")
	return strings.NewReplacer("HEXLENGTH", fmt.Sprintf("%x", len(tail)), "LENGTH", fmt.Sprint(len(tail)),
		"OTHERTAIL", c.plain("smuggled", "other."+host, ""), "TAIL", tail,
		"HOST", host, "/CASE", c.path(), "SLUG", c.slug()).Replace(text)
}

// plain is a request that no server can misread.
func (c Case) plain(kind, host, fields string) string {
	return fmt.Sprintf("GET /%s/%s HTTP/1.1\r\nHost: %s\r\n%s\r\n", kind, c.slug(), host, fields)
}

// after is the request that follows that of the case.
func (c Case) after(host string) string {
	if !c.Other {
		host = "other." + host
	}
	return c.plain("after", host, "Connection: close\r\n")
}
