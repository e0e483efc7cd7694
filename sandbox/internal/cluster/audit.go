package cluster

import "os"

// auditPolicy makes the API server log the writes of HTTPScaledObjects and of routes
// of the Gateway API, with the user but without the object, and nothing else. Writes
// of a route's status are left out: a gateway's controller makes them. A write that
// changes nothing reaches no watch: this log is the only place that shows it. A line
// is written before the request is carried out, and another one when it is answered,
// so that a reader can tell whether a request is still under way.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
rules:
  - level: Metadata
    verbs: [create, update, patch, delete, deletecollection]
    resources:
      - group: http.keda.sh
        resources: [httpscaledobjects, httpscaledobjects/status]
      - group: gateway.networking.k8s.io
        resources: [httproutes, grpcroutes, tcproutes, tlsroutes, udproutes]
  - level: None
`

// AuditLog is the API server's log of the writes of HTTPScaledObjects and routes: an
// Event of audit.k8s.io/v1 as JSON on each line. The file does not exist before the
// first write.
func (l Layout) AuditLog() string { return l.Log("audit") }

func (l Layout) auditPolicy() string { return l.etc("audit-policy.yaml") }

func writeAuditPolicy(l Layout) error {
	return os.WriteFile(l.auditPolicy(), []byte(auditPolicy), 0o644)
}

// auditArgs are the API server's flags for the audit log. Lines are written
// before the request goes on, and the file is never rotated: a reader of it
// remembers how far it has read.
func auditArgs(l Layout) []string {
	const gibibyte = "1024" // in MiB, far more than there will be
	return []string{
		"--audit-policy-file=" + l.auditPolicy(),
		"--audit-log-path=" + l.AuditLog(),
		"--audit-log-mode=blocking",
		"--audit-log-maxsize=" + gibibyte,
	}
}
