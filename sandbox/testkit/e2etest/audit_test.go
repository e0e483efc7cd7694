package e2etest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// auditLine is a line of an audit log, with the fields of a real one.
func auditLine(id, stage, verb, user, name string, code int) string {
	status := ""
	if code != 0 {
		status = fmt.Sprintf(`"responseStatus":{"metadata":{},"code":%d},`, code)
	}
	return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":%q,"stage":%q,`+
		`"requestURI":"/apis/http.keda.sh/v1alpha1/namespaces/myapp/httpscaledobjects/%s","verb":%q,"user":{"username":%q,"groups":["system:authenticated"]},`+
		`"sourceIPs":["10.244.0.5"],"userAgent":"rollouts-plugin-kedify/dev","objectRef":{"resource":"httpscaledobjects","namespace":"myapp","name":%[3]q,"apiGroup":"http.keda.sh","apiVersion":"v1alpha1"},%[6]s`+
		`"requestReceivedTimestamp":"2026-11-22T05:42:05.123456Z","stageTimestamp":"2026-11-22T05:42:05.130000Z"}`+"\n", id, stage, name, verb, user, status)
}

func TestReadAudit(t *testing.T) {
	const other = "kubernetes-admin"
	path := filepath.Join(t.TempDir(), "audit.log")
	if _, err := readAudit(path, "myapp", "app"); err == nil || !strings.Contains(err.Error(), "bring it up anew") {
		t.Errorf("without a log: %v", err)
	}
	lines := auditLine("1", "RequestReceived", "patch", controllerUser, "app", 0) + auditLine("1", "ResponseComplete", "patch", controllerUser, "app", 200) +
		auditLine("2", "RequestReceived", "update", other, "app", 0) + auditLine("2", "ResponseComplete", "update", other, "app", 409) +
		auditLine("3", "RequestReceived", "patch", other, "another", 0) + auditLine("4", "RequestReceived", "patch", controllerUser, "app", 0)
	if err := os.WriteFile(path, []byte(lines+`{"auditID":"5","objectRef":{"namespace":"myapp"`), 0o600); err != nil {
		t.Fatal(err)
	}
	received := time.Date(2026, 11, 22, 5, 42, 5, 123456000, time.UTC)
	of := func(id, verb, user string, code int) write {
		return write{id: id, verb: verb, user: user, agent: "rollouts-plugin-kedify/dev", received: received, code: code}
	}
	got, err := readAudit(path, "myapp", "app")
	want := []write{of("1", "patch", controllerUser, 200), of("2", "update", other, 409), of("4", "patch", controllerUser, 0)}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(write{})); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if last := of("4", "patch", controllerUser, 0); !last.underWay(received.Add(time.Second)) || last.underWay(received.Add(time.Minute)) {
		t.Error("a request without an answer is under way at first, and lost a minute later")
	}
}

func TestCheckWrites(t *testing.T) {
	plugin := func(codes ...int) (writes []write) {
		for _, code := range codes {
			writes = append(writes, write{verb: "patch", user: controllerUser, code: code})
		}
		return writes
	}
	other := write{verb: "patch", user: "kubernetes-admin", code: 200}
	for name, tc := range map[string]struct {
		writes  []write
		changes int
		err     string
	}{
		"nothing":                       {nil, 0, ""},
		"a request for each change":     {plugin(200, 200), 2, ""},
		"one that changes nothing":      {plugin(200, 200), 1, "the plugin wrote 2 times for 1 changes"},
		"one and no change at all":      {plugin(200), 0, "the plugin wrote 1 times for 0 changes"},
		"a change without a request":    {plugin(200), 2, "the plugin wrote 1 times for 2 changes"},
		"changes of others":             {append(plugin(200), other), 2, ""},
		"one that changes nothing, too": {append(plugin(200, 200), other), 2, "the plugin wrote 2 times for 1 changes (2 in all, 1 made by others)"},
		"a conflict":                    {append(plugin(409, 200), other), 2, ""},
		"more conflicts than changes":   {plugin(409, 409, 200), 1, "the plugin met 2 conflicts"},
		"refused":                       {plugin(403, 403, 200), 1, ""},
		"others that are refused":       {append(plugin(200), write{user: "kubernetes-admin", code: 409}), 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkWrites(tc.writes, tc.changes)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
		})
	}
}
