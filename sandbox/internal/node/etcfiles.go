package node

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/dns"
)

// maxHostname is the kernel's limit, in bytes.
const maxHostname = 63

// hostname of a pod: spec.hostname or, without one, the pod's name.
func hostname(pod *corev1.Pod) string {
	name := pod.Name
	if pod.Spec.Hostname != "" {
		name = pod.Spec.Hostname
	}
	if len(name) > maxHostname {
		name = strings.TrimRight(name[:maxHostname], "-.")
	}
	return name
}

// writeEtc makes the files in /etc that all containers of the pod share.
func (w *worker) writeEtc() error {
	dir := w.etcDir()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("files in /etc: %w", err)
	}
	for name, content := range map[string]string{
		"hosts":       hostsFile(w.pod, w.ip),
		"hostname":    hostname(w.pod) + "\n",
		"resolv.conf": resolvConf(w.pod, w.n.cfg.ClusterDNS),
		"passwd":      "root:x:0:0:root:/root:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n",
		"group":       "root:x:0:\nnobody:x:65534:\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			return fmt.Errorf("files in /etc: %w", err)
		}
	}
	return nil
}

func (w *worker) etcDir() string { return filepath.Join(w.dir, "etc") }

// etcMounts are the files of writeEtc, and the certificates that this machine
// trusts if it has them in one of the usual files.
func (w *worker) etcMounts() []bindMount {
	var mounts []bindMount
	for _, name := range []string{"hosts", "hostname", "resolv.conf", "passwd", "group"} {
		mounts = append(mounts, bindMount{
			Source: filepath.Join(w.etcDir(), name), Target: "/etc/" + name, ReadOnly: name == "passwd" || name == "group",
		})
	}
	for _, bundle := range []string{
		"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem",
	} {
		// Mount the link's target: in the container, the link would lead nowhere.
		if file, err := filepath.EvalSymlinks(bundle); err == nil {
			return append(mounts, bindMount{Source: file, Target: "/etc/ssl/certs/ca-certificates.crt", ReadOnly: true})
		}
	}
	return mounts
}

func hostsFile(pod *corev1.Pod, ip string) string {
	var b strings.Builder
	b.WriteString("# Written by the sandbox's node.\n127.0.0.1\tlocalhost\n")
	name := hostname(pod)
	if pod.Spec.Subdomain != "" {
		fmt.Fprintf(&b, "%s\t%s.%s.%s.svc.%s\t%s\n", ip, name, pod.Spec.Subdomain, pod.Namespace, dns.Domain, name)
	} else {
		fmt.Fprintf(&b, "%s\t%s\n", ip, name)
	}
	for _, alias := range pod.Spec.HostAliases {
		fmt.Fprintf(&b, "%s\t%s\n", alias.IP, strings.Join(alias.Hostnames, "\t"))
	}
	return b.String()
}

// resolvConf adds the pod's dnsConfig to the cluster's DNS settings or, as its
// dnsPolicy says, to the server alone (Default) or to nothing (None).
func resolvConf(pod *corev1.Pod, server netip.Addr) string {
	content := dns.ResolvConf(pod.Namespace, server)
	switch pod.Spec.DNSPolicy {
	case corev1.DNSNone:
		content = ""
	case corev1.DNSDefault:
		content = "nameserver " + server.String() + "\n"
	}
	config := pod.Spec.DNSConfig
	if config == nil {
		return content
	}
	if len(config.Searches) > 0 {
		own := strings.Join(config.Searches, " ")
		if first, rest, ok := strings.Cut(content, "\n"); ok && strings.HasPrefix(first, "search ") {
			content = first + " " + own + "\n" + rest
		} else {
			content += "search " + own + "\n"
		}
	}
	for _, server := range config.Nameservers {
		content += "nameserver " + server + "\n"
	}
	// Resolvers take the last value of an option that comes twice.
	for _, o := range config.Options {
		content += "options " + o.Name
		if o.Value != nil {
			content += ":" + *o.Value
		}
		content += "\n"
	}
	return content
}
