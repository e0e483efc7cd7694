// Package events reports problems with HTTPScaledObjects: by Warning Events, which
// kubectl describe shows, and in the log.
//
// Several interceptors may report the same problem. The name of an Event is derived
// from its content, so the second interceptor finds the Event in place, and only
// updates its time.
//
// Each namespace has a queue of its own, with a bound, and they take turns: one with many
// problems, or whose Events cannot be written, delays and drops no Event of another.
package events
