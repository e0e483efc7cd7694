package e2etest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// controllerUser is who the plugin is for the API server: the controller's
// ServiceAccount.
const controllerUser = "system:serviceaccount:" + ControllerNamespace + ":argo-rollouts"

// lostRequest is after how long a request without an answer is taken for one that
// the API server was killed over, whose answer will never be logged. The plugin
// ends its requests after 10 s.
const lostRequest = 30 * time.Second

// write is a request to write an object, as the API server's audit log has it.
type write struct {
	id, verb, user, agent string
	received              time.Time
	// code is the status that it was answered with; 0 until then.
	code int
}

// String says on one line who wrote, when, and what came of it.
func (w write) String() string {
	return fmt.Sprintf("%s %s by %s (%s): %d %s", w.received.Format("15:04:05.000"), w.verb, w.user, w.agent, w.code, http.StatusText(w.code))
}

func (w write) carriedOut() bool { return w.code >= 200 && w.code < 300 }

// underWay says whether the answer to the request is still to come.
func (w write) underWay(now time.Time) bool { return w.code == 0 && now.Sub(w.received) < lostRequest }

// readAudit reads the writes of an object from an audit log, from an offset of the
// file on, in the order in which they were received; and the offset to go on from.
func readAudit(path, namespace, name string, offset int64) (writes []write, end int64, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, fmt.Errorf("%w: was the sandbox brought up by an older build? Take it down and bring it up anew", err)
	}
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return nil, 0, err
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return nil, 0, err
	}
	// The line that is being written is left for the next time.
	content = content[:bytes.LastIndexByte(content, '\n')+1]
	if writes, err = parseAudit(content, namespace, name); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", path, err)
	}
	return writes, offset + int64(len(content)), nil
}

// parseAudit returns the writes of an object that whole lines of an audit log tell
// of. What was received before these lines is not among them, whenever it was
// answered.
func parseAudit(content []byte, namespace, name string) ([]write, error) {
	var writes []write
	for line := range bytes.Lines(content) {
		if !bytes.Contains(line, []byte(namespace)) {
			continue // of another test
		}
		var event struct {
			AuditID, Stage, Verb, UserAgent string
			User                            struct{ Username string }
			ObjectRef                       struct{ Namespace, Name string }
			ResponseStatus                  struct{ Code int }
			RequestReceivedTimestamp        time.Time
		}
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, fmt.Errorf("%w in %q", err, line)
		}
		if event.ObjectRef.Namespace != namespace || event.ObjectRef.Name != name {
			continue
		}
		switch event.Stage {
		case "RequestReceived":
			writes = append(writes, write{
				id: event.AuditID, verb: event.Verb, user: event.User.Username, agent: event.UserAgent, received: event.RequestReceivedTimestamp,
			})
		case "ResponseComplete", "Panic":
			if i := slices.IndexFunc(writes, func(w write) bool { return w.id == event.AuditID }); i >= 0 {
				writes[i].code = event.ResponseStatus.Code
			}
		}
	}
	return writes, nil
}

// auditLog is the sandbox's.
func auditLog() (string, error) {
	l, err := cluster.InsideLayout()
	if err != nil {
		return "", err
	}
	return l.AuditLog(), nil
}

// ControllerWrites returns the verbs of the requests by which the controller's
// ServiceAccount has written an object of the namespace, in order; those that were not
// carried out with their status, as in "patch 409". It is for the kinds in the audit
// log: HTTPScaledObjects and routes of the Gateway API.
func (n *Namespace) ControllerWrites(name string) []string {
	n.t.Helper()
	path, err := auditLog()
	if err != nil {
		n.t.Fatal(err)
	}
	var verbs []string
	Eventually(n.t, Patience, "a moment at which nobody writes "+name, func(context.Context) error {
		writes, _, err := readAudit(path, n.Name, name, 0)
		if err != nil {
			return err
		}
		verbs = nil
		for _, w := range writes {
			if w.underWay(time.Now()) {
				return fmt.Errorf("%s", w)
			}
			switch {
			case w.user != controllerUser:
			case w.carriedOut():
				verbs = append(verbs, w.verb)
			default:
				verbs = append(verbs, fmt.Sprintf("%s %d", w.verb, w.code))
			}
		}
		return nil
	})
	return verbs
}

// checkWrites returns an error unless each write of the plugin has changed the
// object: of so many changes of it, those that nobody else has made are the
// plugin's, and each took one request. A request may meet a conflict besides, when
// a change came between the plugin's read and its write, but no more often than
// there were changes.
//
// What others write has to change the object each time.
func checkWrites(writes []write, changes int) error {
	own, others, conflicts := 0, 0, 0
	for _, w := range writes {
		switch {
		case w.user != controllerUser:
			if w.carriedOut() {
				others++
			}
		case w.carriedOut():
			own++
		case w.code == http.StatusConflict:
			conflicts++
		}
	}
	var problem string
	switch {
	case own != changes-others:
		problem = fmt.Sprintf("the plugin wrote %d times for %d changes (%d in all, %d made by others)", own, changes-others, changes, others)
	case conflicts > changes:
		problem = fmt.Sprintf("the plugin met %d conflicts, with %d changes that could have made one", conflicts, changes)
	default:
		return nil
	}
	var list string
	for _, w := range writes {
		list += "\n  " + w.String()
	}
	return fmt.Errorf("%s; the API server's audit log has:%s", problem, list)
}
