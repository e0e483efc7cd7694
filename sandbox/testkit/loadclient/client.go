// Package loadclient runs load generators of other projects: how they judge an
// answer, and how they end a connection, is what users see.
package loadclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// Client is a load generator. It sends requests as fast as they are answered.
type Client struct {
	// Name is wrk or h2load.
	Name      string
	arguments func(r Run) []string
	// requests and failures match what the client prints: the number of requests and,
	// as the sum of all groups, the number of failed ones.
	requests *regexp.Regexp
	failures []*regexp.Regexp
}

// concurrency is how many requests a client has under way at a time.
const concurrency = 32

// Wrk sends over 32 connections of HTTP/1.1, or as many as the run says.
var Wrk = Client{
	Name: "wrk",
	arguments: func(r Run) []string {
		return []string{
			"--threads", "1", "--connections", strconv.Itoa(cmp.Or(r.Connections, concurrency)), "--timeout", "30s", "--latency",
			"--duration", seconds(r.Duration) + "s", "--header", "Host: " + r.Host, r.url(),
		}
	},
	requests: regexp.MustCompile(`(?m)^ *(\d+) requests in `),
	failures: []*regexp.Regexp{
		regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`),
		regexp.MustCompile(`Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)`),
	},
}

// H2load sends 32 streams at a time over one connection of HTTP/2.
var H2load = Client{
	Name: "h2load",
	arguments: func(r Run) []string {
		return []string{
			"--clients", "1", "--max-concurrent-streams", strconv.Itoa(concurrency),
			"--duration", seconds(r.Duration), "--header", ":authority: " + r.Host, r.url(),
		}
	},
	requests: regexp.MustCompile(`requests: \d+ total, \d+ started, (\d+) done`),
	// The failed ones include requests without an answer, or with a status other than
	// 2xx or 3xx.
	failures: []*regexp.Regexp{regexp.MustCompile(`(\d+) failed, \d+ errored, (\d+) timeout`)},
}

// Run is what to send, and for how long, in whole seconds.
type Run struct {
	// Target is the host:port to connect to, and Host the Host header.
	Target, Host, Path string
	Duration           time.Duration
	// Connections is how many Wrk has.
	Connections int
}

func (r Run) url() string { return "http://" + r.Target + r.Path }

func seconds(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }

// Counts are what became of the requests of a run.
type Counts struct{ Requests, Failed int }

// Do runs the client once, at the lowest priority, because other tests run beside it
// that wait for something. output is what it printed.
func (c Client) Do(ctx context.Context, r Run) (counts Counts, output string, err error) {
	cmd, err := c.Command(ctx, r)
	if err != nil {
		return Counts{}, "", err
	}
	printed, err := exec.CommandContext(ctx, "nice", append([]string{"-n", "19"}, cmd.Args...)...).CombinedOutput()
	if err != nil {
		return Counts{}, string(printed), fmt.Errorf("%s: %w", c.Name, err)
	}
	counts, err = c.Read(string(printed))
	return counts, string(printed), err
}

// Command returns the command that runs the client once.
func (c Client) Command(ctx context.Context, r Run) (*exec.Cmd, error) {
	path, err := c.path()
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, path, c.arguments(r)...), nil
}

// Read finds the counts in what the client printed.
func (c Client) Read(output string) (Counts, error) {
	requests := c.requests.FindStringSubmatch(output)
	if requests == nil {
		return Counts{}, fmt.Errorf("%s does not say how many requests it sent", c.Name)
	}
	var counts Counts
	var errs []error
	number := func(text string) int {
		n, err := strconv.Atoi(text)
		errs = append(errs, err)
		return n
	}
	counts.Requests = number(requests[1])
	for _, failures := range c.failures {
		groups := failures.FindStringSubmatch(output)
		for i := 1; i < len(groups); i++ {
			counts.Failed += number(groups[i])
		}
	}
	return counts, errors.Join(errs...)
}

// path returns the path of the client: where hack/load-clients.sh puts it, or else
// where PATH has it.
func (c Client) path() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, "rollouts-sandbox", "load-clients", c.Name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	path, err = exec.LookPath(c.Name)
	if err != nil {
		return "", fmt.Errorf("%w: hack/load-clients.sh gets it", err)
	}
	return path, nil
}
