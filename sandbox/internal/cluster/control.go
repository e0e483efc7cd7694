package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Event is one thing that happened while a sandbox came up.
type Event struct {
	// Said is a line worth keeping; Status is one that the next event replaces.
	Said   string `json:"said,omitempty"`
	Status string `json:"status,omitempty"`
	// Error says why the sandbox did not come up; Ready that it did. An Event with
	// one of them is the last.
	Error string `json:"error,omitempty"`
	Ready bool   `json:"ready,omitempty"`
}

// maxSocketPath is how long the path of a unix socket may be: the kernel's
// sun_path, less the closing zero.
const maxSocketPath = 107

// shortSocket returns a path of the control socket that fits into a socket address,
// however long the path of the state directory is.
func shortSocket(l Layout) (path string, release func(), err error) {
	path = l.ControlSocket()
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	fd, err := unix.Open(l.Dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", l.Dir, err)
	}
	path = filepath.Join("/proc/self/fd", strconv.Itoa(fd), filepath.Base(l.ControlSocket()))
	return path, func() { _ = unix.Close(fd) }, nil
}

// listenControl opens the control socket. Only this user may connect.
func listenControl(l Layout) (net.Listener, error) {
	path, release, err := shortSocket(l)
	if err != nil {
		return nil, err
	}
	defer release()
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	return listener, os.Chmod(l.ControlSocket(), 0o600)
}

// handler serves the control socket:
//
//	GET  /events                      what happened while coming up, as lines of JSON, until it is up or has failed
//	GET  /status                      a Status
//	POST /components/{name}/stop      end a component; ?kill=true with SIGKILL
//	POST /components/{name}/start     start a component and wait until it is ready
//
// An error is its text, with a status of 400 or above.
func (d *daemon) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) {
		encoder := json.NewEncoder(w)
		for event := range d.events.all(r.Context()) {
			if encoder.Encode(event) != nil {
				return // the reader has gone
			}
			if http.NewResponseController(w).Flush() != nil {
				return
			}
		}
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(d.status(r.Context()))
	})
	mux.HandleFunc("POST /components/{name}/{action}", func(w http.ResponseWriter, r *http.Request) {
		if err := d.changeComponent(r); err != nil {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		}
	})
	return mux
}

func (d *daemon) changeComponent(r *http.Request) error {
	name := r.PathValue("name")
	switch action := r.PathValue("action"); action {
	case "stop":
		return d.supervisor.stop(name, r.URL.Query().Get("kill") == "true")
	case "start":
		if err := d.supervisor.start(name); err != nil {
			return err
		}
		return d.supervisor.await(r.Context(), name, componentTimeout, func(string, ...any) {})
	default:
		return fmt.Errorf("no action %q on components; there are stop and start", action)
	}
}

// control is a client of the control socket.
type control struct{ layout Layout }

// errNotRunning is returned by requests to a sandbox that is not there.
var errNotRunning = errors.New("is not running")

// notRunning says that the sandbox is not running, and what to do.
func notRunning(l Layout) error {
	if isState(l) {
		return fmt.Errorf("the sandbox in %s %w: it has ended unexpectedly, perhaps with the machine; run `sandbox down`, then `sandbox up`", l.Dir, errNotRunning)
	}
	return fmt.Errorf("the sandbox in %s %w: run `sandbox up`", l.Dir, errNotRunning)
}

func (c control) do(ctx context.Context, method, path string) (*http.Response, error) {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			socket, release, err := shortSocket(c.layout)
			if err != nil {
				return nil, err
			}
			defer release()
			var dialer net.Dialer
			return dialer.DialContext(ctx, "unix", socket)
		},
	}}
	request, err := http.NewRequestWithContext(ctx, method, "http://sandbox"+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED):
		return nil, notRunning(c.layout)
	case errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE) || errors.Is(err, io.EOF):
		return nil, notRunning(c.layout) // the daemon ended before it answered
	case err != nil:
		return nil, err
	case response.StatusCode >= 400:
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
		if err != nil {
			return nil, err
		}
		return nil, errors.New(strings.TrimSpace(string(text)))
	}
	return response, nil
}

// follow calls f with each event of the sandbox's start, and returns nil once
// it is up.
func (c control) follow(ctx context.Context, f func(Event)) error {
	response, err := c.do(ctx, http.MethodGet, "/events")
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	decoder := json.NewDecoder(response.Body)
	for {
		var event Event
		if err := decoder.Decode(&event); err != nil {
			return fmt.Errorf("the sandbox's daemon has gone while the sandbox came up: %w", err)
		}
		f(event)
		switch {
		case event.Ready:
			return nil
		case event.Error != "":
			return errors.New(event.Error)
		}
	}
}

func (c control) status(ctx context.Context) (*Status, error) {
	response, err := c.do(ctx, http.MethodGet, "/status")
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	var status Status
	if err := json.NewDecoder(response.Body).Decode(&status); err != nil {
		return nil, fmt.Errorf("status of the sandbox: %w", err)
	}
	return &status, nil
}

func (c control) component(ctx context.Context, action, name string, kill bool) error {
	path := "/components/" + name + "/" + action
	if kill {
		path += "?kill=true"
	}
	response, err := c.do(ctx, http.MethodPost, path)
	if err != nil {
		return err
	}
	_, err = io.Copy(&bytes.Buffer{}, response.Body)
	return errors.Join(err, response.Body.Close())
}

// serve serves handler on listener until ctx ends.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
