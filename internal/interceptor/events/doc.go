// Package events tells people what is wrong with their HTTPScaledObjects: by
// Warning Events, which kubectl describe shows, and in the log.
//
// Interceptors need not agree on who tells: the name of an Event is made of what
// it says, so that the second to tell of a problem finds the Event there, and
// only says that it still holds.
package events
