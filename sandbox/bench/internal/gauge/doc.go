// Package gauge is what the programs of `make bench` have in common: a bare
// sandbox to measure in, its API server, processes to look at, and figures.
package gauge
