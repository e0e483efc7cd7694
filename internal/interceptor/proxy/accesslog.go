package proxy

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// logAccess adds a line to the access log once a request is over, however it ended.
func (p *Proxy) logAccess(next http.Handler) http.Handler {
	if p.accessLog == nil {
		return next
	}
	all, lines := p.settings.AccessLog == routes.AccessLogAll, newAccessLogLines(p.accessLog, p.settings.AccessLogFormat)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.accessLog.requests.Add(1)
		defer func() {
			if rec := recordOf(r); all || rec.served != nil && rec.served.route.AccessLog {
				lines.add(r, rec)
			}
			p.accessLog.requests.Add(-1)
		}()
		next.ServeHTTP(w, r)
	})
}

// accessLogLines makes the lines of an access log. Their fields are those of kedify-proxies'
// access log, see package envoy, which has a cluster instead of an object and a service.
type accessLogLines struct {
	handler slog.Handler
	absent  slog.Value // of a field without a value
}

func newAccessLogLines(to *accessLog, format string) accessLogLines {
	options := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.LevelKey || a.Key == slog.MessageKey {
			return slog.Attr{} // a line has neither
		}
		return a
	}}
	if format == routes.AccessLogText {
		return accessLogLines{slog.NewTextHandler(to, options), slog.StringValue("-")}
	}
	return accessLogLines{slog.NewJSONHandler(to, options), slog.AnyValue(nil)}
}

func (l accessLogLines) add(r *http.Request, rec *record) {
	object, headerAfter := "", l.absent
	if rec.served != nil {
		object = rec.object().String()
	}
	if !rec.headerAt.IsZero() {
		headerAfter = slog.Int64Value(rec.headerAt.Sub(rec.begun).Milliseconds())
	}
	line := slog.NewRecord(time.Time{}, slog.LevelInfo, "", 0)
	line.AddAttrs(
		slog.String("time", rec.begun.UTC().Format("2006-01-02T15:04:05.000Z")),
		slog.String("request_id", upTo(128, rec.requestID[0])),
		l.text("object", object),
		l.text("service", rec.service()),
		l.text("endpoint", rec.endpoint),
		slog.String("method", upTo(128, r.Method)),
		slog.String("host", upTo(255, r.Host)),
		slog.String("path", upTo(1024, routes.PathOf(r.RequestURI))),
		slog.Int("code", rec.finalCode()),
		slog.Int64("bytes", rec.bytes),
		slog.Int64("duration_ms", time.Since(rec.begun).Milliseconds()),
		slog.Attr{Key: "header_ms", Value: headerAfter},
		slog.String("flags", rec.flags()),
	)
	_ = l.handler.Handle(context.Background(), line) // a line for which there is no room is counted
}

// text is a field that may have no value.
func (l accessLogLines) text(name, value string) slog.Attr {
	if value == "" {
		return slog.Attr{Key: name, Value: l.absent}
	}
	return slog.String(name, value)
}

// upTo bounds what a client can put into a line, in bytes.
func upTo(most int, text string) string { return text[:min(len(text), most)] }

// flags returns what happened to a request, "-" for nothing.
func (rec *record) flags() string {
	var flags []string
	for _, flag := range [...]struct {
		name string
		is   bool
	}{
		{"handed_over", rec.handover != nil},
		{"held", rec.held},
		{"tried_again", rec.triedAgain},
		{"cut_short_by_" + rec.cutBy, rec.cutBy != ""},
		{"limited", rec.limited},
	} {
		if flag.is {
			flags = append(flags, flag.name)
		}
	}
	if flags == nil {
		return "-"
	}
	return strings.Join(flags, ",")
}
