// Package envoytest runs a real Envoy for tests.
package envoytest
