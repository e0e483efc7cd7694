package tracing

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func set(variables string) func(string) string {
	return func(name string) string {
		for _, entry := range strings.Fields(variables) {
			if key, value, _ := strings.Cut(entry, "="); key == name {
				return value
			}
		}
		return ""
	}
}

// Spans are exported only if a standard variable asks for that.
func TestWhichVariablesTurnTracingOn(t *testing.T) {
	for variables, want := range map[string]string{
		"": "",
		"OTEL_SERVICE_NAME=a OTEL_TRACES_SAMPLER=always_on":                                                           "",
		"OTEL_EXPORTER_OTLP_TRACES_ENABLED=true":                                                                      "",
		"OTEL_TRACES_EXPORTER=otlp":                                                                                   "http/protobuf",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318":                                                                   "http/protobuf",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://c":                                                                "http/protobuf",
		"OTEL_TRACES_EXPORTER=none OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318":                                         "",
		"OTEL_SDK_DISABLED=TRUE OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318":                                            "",
		"OTEL_EXPORTER_OTLP_TRACES_ENABLED=false OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318":                           "",
		"OTEL_EXPORTER_OTLP_PROTOCOL=grpc OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317":                                  "grpc",
		"OTEL_EXPORTER_OTLP_PROTOCOL=grpc OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf OTEL_TRACES_EXPORTER=otlp": "http/protobuf",
	} {
		if got, err := environment(set(variables)).protocol(); err != nil || got != want {
			t.Errorf("%s: %q %v, want %q", variables, got, err, want)
		}
	}
}

// A wrong value is named in the log, with what is expected, and tracing stays off.
func TestWrongValuesKeepTracingOff(t *testing.T) {
	for variables, says := range map[string]string{
		"OTEL_TRACES_EXPORTER=zipkin":                                           `OTEL_TRACES_EXPORTER is \"zipkin\"; expected otlp or none`,
		"OTEL_EXPORTER_OTLP_ENDPOINT=collector:4318":                            `OTEL_EXPORTER_OTLP_ENDPOINT is \"collector:4318\"; expected a URL such as http://collector:4318`,
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=ftp://c":                            `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is \"ftp://c\"`,
		"OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_PROTOCOL=http/json":       `OTEL_EXPORTER_OTLP_PROTOCOL is \"http/json\"; expected http/protobuf or grpc`,
		"OTEL_TRACES_EXPORTER=otlp OTEL_BSP_MAX_QUEUE_SIZE=-1":                  `OTEL_BSP_MAX_QUEUE_SIZE is -1; expected 1 at least`,
		"OTEL_TRACES_EXPORTER=otlp OTEL_BSP_MAX_EXPORT_BATCH_SIZE=0":            `OTEL_BSP_MAX_EXPORT_BATCH_SIZE is 0; expected 1 at least`,
		"OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=whatever": `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL is \"whatever\"`,
	} {
		var out bytes.Buffer
		get := set(variables)
		lookup := func(name string) (string, bool) { value := get(name); return value, value != "" }
		traces := New(t.Context(), lookup, "v1", slog.New(slog.NewTextHandler(&out, nil)))
		if traces.Tracer() != nil || strings.Count(out.String(), "\n") != 1 || !strings.Contains(out.String(), says) && !strings.Contains(out.String(), strings.ReplaceAll(says, `\"`, `\\\"`)) {
			t.Errorf("%s: tracer %v, and logged %s; want no tracer, and %s", variables, traces.Tracer(), &out, says)
		}
	}
}

// Variables that have no effect are told of, those of the SDK among them.
func TestVariablesThatWait(t *testing.T) {
	for _, tt := range []struct {
		name, variables string
		idle, known     bool
	}{
		{"OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER=always_on", true, true},
		{"OTEL_TRACES_SAMPLER", "OTEL_TRACES_EXPORTER=otlp", false, true},
		{"OTEL_EXPORTER_OTLP_TRACES_ENABLED", "OTEL_EXPORTER_OTLP_TRACES_ENABLED=true", true, true},
		{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_ENDPOINT=http://c", false, true},
		{"OTEL_BSP_MAX_QUEUE_SIZE", "", true, true},
		{"OTEL_SDK_DISABLED", "OTEL_SDK_DISABLED=true", false, true},
		{"OTEL_METRICS_EXPORTER", "OTEL_TRACES_EXPORTER=otlp", false, false},
		{"OTEL_PROPAGATORS", "OTEL_TRACES_EXPORTER=otlp", false, false},
	} {
		if why, known := WhyIdle(tt.name, set(tt.variables)); (why != "") != tt.idle || known != tt.known {
			t.Errorf("%s with %q: %q, known %v", tt.name, tt.variables, why, known)
		}
	}
}

// Batches fail one after the other while a collector is away. One line a minute says so.
func TestErrorsAreLoggedOnceAMinute(t *testing.T) {
	var out bytes.Buffer
	now := time.Now()
	log := newErrorLog(slog.New(slog.NewTextHandler(&out, nil)))
	log.now = func() time.Time { return now }
	for range 120 {
		log.Handle(errors.New("connection refused"))
		now = now.Add(time.Second)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[1], "notLogged=59") || !strings.Contains(lines[1], "connection refused") {
		t.Errorf("logged:\n%s\nwant two lines", &out)
	}
}
