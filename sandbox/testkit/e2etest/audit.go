package e2etest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// controllerUser is the user as which the API server knows the plugin: the
// controller's ServiceAccount.
const controllerUser = "system:serviceaccount:" + ControllerNamespace + ":argo-rollouts"

// lostRequest is how long a request may be without an answer. After that, assume that
// the API server was killed meanwhile, and will never log an answer. The plugin ends
// its requests after 10 s.
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

// readAudit returns the writes of an object in an audit log, in the order in which they
// were received.
func readAudit(path, namespace, name string) ([]write, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: was the sandbox brought up by an older build? Take it down and bring it up anew", err)
	}
	if err != nil {
		return nil, err
	}
	var writes []write
	// The last line may not be whole yet.
	for line := range bytes.Lines(content[:bytes.LastIndexByte(content, '\n')+1]) {
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
			return nil, fmt.Errorf("%s: %w in %q", path, err, line)
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

// writesUntil calls look at a moment at which nobody writes an object of the namespace, and
// returns the writes of it until then.
func (n *Namespace) writesUntil(name string, look func(context.Context) error) (writes []write) {
	n.t.Helper()
	l, err := cluster.InsideLayout()
	if err != nil {
		n.t.Fatal(err)
	}
	Eventually(n.t, Patience, "a moment at which nobody writes "+name, func(ctx context.Context) error {
		if writes, err = readAudit(l.AuditLog(), n.Name, name); err != nil {
			return err
		}
		if i := slices.IndexFunc(writes, func(w write) bool { return w.underWay(time.Now()) }); i >= 0 {
			return fmt.Errorf("%s", writes[i])
		}
		if err := look(ctx); err != nil {
			return err
		}
		now, err := readAudit(l.AuditLog(), n.Name, name)
		if err == nil && len(now) > len(writes) {
			err = fmt.Errorf("%s", now[len(writes)])
		}
		return err
	})
	return writes
}

// ControllerWrites returns the verbs of the requests by which the controller's
// ServiceAccount has written an object of the namespace, in order. The verb of a
// request that was not carried out is followed by its status, as in "patch 409". It
// is for the kinds in the audit log: HTTPScaledObjects and routes of the Gateway API.
func (n *Namespace) ControllerWrites(name string) []string {
	n.t.Helper()
	var verbs []string
	for _, w := range n.writesUntil(name, func(context.Context) error { return nil }) {
		switch {
		case w.user != controllerUser:
		case w.carriedOut():
			verbs = append(verbs, w.verb)
		default:
			verbs = append(verbs, fmt.Sprintf("%s %d", w.verb, w.code))
		}
	}
	return verbs
}

// checkWrites returns an error unless each write of the plugin has changed the
// object. The changes that no other client made are the plugin's, and each must have
// taken one request. Besides, a request may meet a conflict, when a change came
// between the plugin's read and its write, but no more often than there were changes.
//
// Each write of another client has to change the object.
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
