// Command curl is the curl of a container, whose root holds nothing but the static
// programs of its image.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

func main() { os.Exit(curlMain(os.Args[1:], os.Stdout, os.Stderr)) }

// Exit codes of curl.
const (
	exitUsage   = 2
	exitResolve = 6
	exitConnect = 7
	exitStatus  = 22
	exitTimeout = 28
	exitReceive = 56
)

// patience bounds a request; the real curl sets no bound.
const patience = 30 * time.Second

// curlMain is `curl [--fail] [--silent] [--show-error] [--retry=N] URL`, with the
// same outcome as curl: the body goes to stdout, and with --fail an answer of 400
// and more is exit code 22. Errors that curl considers transient (408, 429, 500,
// 502, 503, 504 and timeouts) are retried, after a second at first and twice as
// long each time. Other options are refused. It returns the exit code.
func curlMain(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("curl", flag.ContinueOnError)
	flags.SetOutput(stderr)
	fail := flags.Bool("fail", false, "fail with nothing on stdout for answers of 400 and more")
	silent := flags.Bool("silent", false, "no errors")
	show := flags.Bool("show-error", false, "errors though it is silent")
	retries := flags.Int("retry", 0, "how often to try again what is transient")
	if err := flags.Parse(args); err != nil || flags.NArg() != 1 {
		_, _ = fmt.Fprintln(stderr, "curl: (2) the sandbox's curl takes --fail, --silent, --show-error, --retry=N and one URL")
		return exitUsage
	}
	for wait := time.Second; ; wait *= 2 {
		code, transient, err := get(flags.Arg(0), *fail, stdout)
		if transient && *retries > 0 {
			*retries--
			time.Sleep(wait)
			continue
		}
		if err != nil && (!*silent || *show) {
			_, _ = fmt.Fprintf(stderr, "curl: (%d) %v\n", code, err)
		}
		return code
	}
}

func get(url string, fail bool, stdout io.Writer) (code int, transient bool, err error) {
	client := http.Client{Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Get(url)
	var resolve *net.DNSError
	var timeout net.Error
	switch {
	case errors.As(err, &resolve):
		return exitResolve, false, err
	case errors.As(err, &timeout) && timeout.Timeout():
		return exitTimeout, true, err
	case err != nil:
		return exitConnect, false, err
	}
	defer func() { _ = response.Body.Close() }()
	switch response.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		transient = true
	}
	if fail && response.StatusCode >= http.StatusBadRequest {
		return exitStatus, transient, fmt.Errorf("The requested URL returned error: %d", response.StatusCode)
	}
	if _, err := io.Copy(stdout, response.Body); err != nil {
		return exitReceive, false, err
	}
	return 0, transient, nil
}
