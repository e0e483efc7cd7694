package settings

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/tracing"
)

// ofCharts matches the variables that configure an interceptor of KEDA's or Kedify's
// charts, of any release; a variable that it matches and that is not in the table has no
// effect.
var ofCharts = regexp.MustCompile(`^(KEDA|KEDIFY|OTEL)_|^PROFILING_BIND_ADDRESS$`)

// ofServices matches the variables with which Kubernetes tells a pod of the Services
// in its namespace, some of which begin with the same names.
var ofServices = regexp.MustCompile(`^\w+_(SERVICE_(HOST|PORT)(_\w+)?=|PORT=\w+://|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?=)`)

// WithoutEffect returns a line for the log for each variable of environ (as os.Environ
// returns it), and for each flag, that is set and has no effect, or is overridden by
// another setting. Call it when the flags are parsed.
func (s *Settings) WithoutEffect(environ []string, flags *pflag.FlagSet) []string {
	rows := s.rows()
	get := func(name string) string {
		if i := slices.IndexFunc(environ, func(entry string) bool { return strings.HasPrefix(entry, name+"=") }); i >= 0 {
			return environ[i][len(name)+1:]
		}
		return ""
	}
	var lines []string
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if value == "" || !ofCharts.MatchString(name) || ofServices.MatchString(entry) {
			continue
		}
		why := "this interceptor does not know it"
		if i := slices.IndexFunc(rows, func(r row) bool { return r.variable == name }); i >= 0 {
			why = rows[i].whyIdle(flags)
		} else if idle, is := tracing.WhyIdle(name, get); is {
			why = idle
		}
		if why != "" {
			lines = append(lines, fmt.Sprintf("environment variable %s is set and has no effect: %s", name, why))
		}
	}
	for _, r := range rows {
		if r.noEffect != "" && flags.Changed(r.flag) {
			lines = append(lines, fmt.Sprintf("command-line flag --%s is set and has no effect: %s", r.flag, r.whyIdle(flags)))
		}
	}
	slices.Sort(lines)
	return lines
}

// whyIdle returns why the variable, or the flag of a row without effect, has none.
func (r *row) whyIdle(flags *pflag.FlagSet) string {
	switch {
	case r.noEffect != "":
		return strings.ReplaceAll(r.noEffect, "`", "")
	case flags.Changed(r.flag):
		return "--" + r.flag + " is set, too, and wins"
	case r.idle != nil:
		return r.idle()
	default:
		return ""
	}
}

func (s *Settings) certPathIsIdle() string {
	if s.chartTLS {
		return ""
	}
	return tlsEnabled + " is not true"
}

func (s *Settings) tlsPortIsIdle() string {
	if s.CertFile != "" {
		return ""
	}
	return tlsEnabled + " is not true"
}

func (s *Settings) chartLogRequestsIsIdle() string {
	if s.chartLogRequests && s.Proxy.AccessLog != routes.AccessLogAll {
		return "--access-log is set, too, and wins"
	}
	return ""
}

func (s *Settings) chartAccessLogIsIdle() string {
	k := &s.KedifyProxy
	if s.chartAccessLog != "" && (k.AccessLog != routes.AccessLogAll || k.AccessLogFormat != s.chartAccessLogFormat()) {
		return "--kedify-proxy-access-log or --kedify-proxy-access-log-format is set, too, and wins"
	}
	return ""
}

func (s *Settings) podNamespaceIsIdle() string {
	if s.FallbackService != "" && !strings.Contains(s.FallbackService, "/") {
		return ""
	}
	return "--fallback-service needs no namespace of this pod"
}
