package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// verdict is the result of a mutation, in a word.
type verdict string

const (
	caught   verdict = "caught"
	survived verdict = "survived"
	// notTried is a mutation that shows nothing about its tests: it does not compile,
	// or a test did not run, or fails without the mutation.
	notTried verdict = "not tried"
	// left is a mutation that an interrupted run has not come to. It is not saved.
	left verdict = "left"
)

// result is the result of one mutation, or why there is none.
type result struct {
	// Key is a hash of all that the result depends on.
	Key     string  `json:"key"`
	Verdict verdict `json:"verdict"`
	// Reason says why the mutation was not tried, or which tests did not fail.
	Reason  string  `json:"reason,omitempty"`
	Seconds float64 `json:"seconds"`
}

// results are kept in a file from one run to the next.
type results struct {
	file string
	// Mutations has the last result of each mutation, by name.
	Mutations map[string]result `json:"mutations"`
	// Unmutated has a hash of the sources in which a test passed without any
	// mutation, by test.
	Unmutated map[string]string `json:"unmutated"`
}

func readResults(file string) (*results, error) {
	r := &results{file: file, Mutations: map[string]result{}, Unmutated: map[string]string{}}
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s cannot be read: remove it to try everything anew: %w", file, err)
	}
	return r, nil
}

// save writes the file as a whole or not at all.
func (r *results) save() error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	temporary := filepath.Join(filepath.Dir(r.file), "."+filepath.Base(r.file))
	if err := os.WriteFile(temporary, append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, r.file)
}
