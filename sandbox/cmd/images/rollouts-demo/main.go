// Command rollouts-demo is the program behind the image
// argoproj/rollouts-demo:<colour> in the sandbox: a web server that answers
// with its colour, so that one can count which version answers. It has the settings
// of the published image, in the environment or as flags; a flag wins.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() { os.Exit(run()) }

func run() int {
	log.SetFlags(log.LstdFlags | log.LUTC)
	cfg, err := parse(os.Args[1:], os.Getenv)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "rollouts-demo:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := serve(ctx, cfg); err != nil {
		log.Printf("rollouts-demo: %v", err)
		return 1
	}
	return 0
}

// config is how one instance behaves.
type config struct {
	listen           string
	colour           string
	latency          time.Duration // before each answer of /color
	errorRate        int           // percent of /color requests answered 500
	startupDelay     time.Duration // before the port is opened
	terminationDelay time.Duration // between SIGTERM and closing the port
}

func parse(args []string, getenv func(string) string) (config, error) {
	var cfg config
	flags := flag.NewFlagSet("rollouts-demo", flag.ContinueOnError)
	flags.StringVar(&cfg.listen, "listen-addr", ":8080", "address to listen on")
	flags.StringVar(&cfg.colour, "color", getenv("COLOR"), "colour to answer with (COLOR); a random one for each request if empty")
	latency := flags.String("latency", getenv("LATENCY"), "wait this long before each answer: seconds, or a duration like 200ms (LATENCY)")
	errorRate := flags.String("error-rate", getenv("ERROR_RATE"), "percentage of requests to answer with 500 (ERROR_RATE)")
	startupDelay := flags.String("startup-delay", getenv("STARTUP_DELAY"), "wait this long before listening: seconds or a duration (STARTUP_DELAY)")
	terminationDelay := flags.String("termination-delay", getenv("TERMINATION_DELAY"), "go on serving this long after SIGTERM: seconds or a duration (TERMINATION_DELAY)")
	if err := flags.Parse(args); err != nil {
		return config{}, err
	}
	if flags.NArg() > 0 {
		return config{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	for name, d := range map[string]struct {
		text string
		to   *time.Duration
	}{
		"latency":           {*latency, &cfg.latency},
		"startup-delay":     {*startupDelay, &cfg.startupDelay},
		"termination-delay": {*terminationDelay, &cfg.terminationDelay},
	} {
		value, err := duration(d.text)
		if err != nil {
			return config{}, fmt.Errorf("%s: %w", name, err)
		}
		*d.to = value
	}
	if *errorRate != "" {
		percent, err := strconv.Atoi(*errorRate)
		if err != nil || percent < 0 || percent > 100 {
			return config{}, fmt.Errorf("error-rate: %q: expected a percentage, 0 to 100", *errorRate)
		}
		cfg.errorRate = percent
	}
	return cfg, nil
}

// duration reads a number of seconds or a Go duration; empty is zero.
func duration(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if _, errNumber := strconv.ParseFloat(text, 64); errNumber == nil {
		d, err = time.ParseDuration(text + "s")
	}
	if err != nil || d < 0 || d > time.Hour {
		return 0, fmt.Errorf("%q: expected seconds, or a duration like 200ms, up to an hour", text)
	}
	return d, nil
}

// serve answers requests until ctx ends, and then finishes those in flight.
func serve(ctx context.Context, cfg config) error {
	if !wait(ctx, cfg.startupDelay) {
		return nil
	}
	server := &http.Server{Addr: cfg.listen, Handler: handler(cfg), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	log.Printf("serving %s on %s", cfg, cfg.listen)
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	log.Printf("asked to stop; serving %v more", cfg.terminationDelay)
	server.SetKeepAlivesEnabled(false)
	time.Sleep(cfg.terminationDelay)
	drain, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		return fmt.Errorf("requests still in flight: %w", err)
	}
	log.Print("stopped")
	return nil
}

// String says what the instance does, for its log.
func (c config) String() string {
	colour := c.colour
	if colour == "" {
		colour = "a random colour"
	}
	return fmt.Sprintf("%s (latency %v, error rate %d%%)", colour, c.latency, c.errorRate)
}

// wait reports whether d passed before ctx ended.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
