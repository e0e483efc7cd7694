package main

import (
	"strings"
	"testing"
)

func TestEcho(t *testing.T) {
	for _, tc := range []struct {
		args         []string
		printed, err string
		code         int
	}{
		{args: []string{"hello world"}, printed: "hello world\n"},
		{args: []string{"hello", "world"}, printed: "hello world\n"},
		{printed: "\n"},
		{args: []string{"-n", "hello"}, err: "option -n", code: 1},
	} {
		var stdout, stderr strings.Builder
		code := echoMain(tc.args, &stdout, &stderr)
		if code != tc.code || stdout.String() != tc.printed || !strings.Contains(stderr.String(), tc.err) {
			t.Errorf("echo %q prints %q and %q, and ends with %d", tc.args, stdout.String(), stderr.String(), code)
		}
	}
}
