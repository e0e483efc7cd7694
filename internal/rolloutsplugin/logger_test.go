package rolloutsplugin

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

func TestLoggerRefusesUnknownValues(t *testing.T) {
	tests := map[string]struct{ level, format, want string }{
		"level":       {"loud", "json", `--log-level "loud": want one of trace, debug, info, warn, error`},
		"empty level": {"", "json", `--log-level ""`},
		"format":      {"info", "logfmt", `--log-format "logfmt": want one of json, text`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := NewLogger(&bytes.Buffer{}, "x", tc.level, tc.format); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want one with %q", err, tc.want)
			}
		})
	}
}

// The controller keeps the level of a line only when it finds these keys
// (hashicorp/go-plugin's log parser).
func TestLinesCarryTheirLevelForTheController(t *testing.T) {
	out := &bytes.Buffer{}
	logger, err := NewLogger(out, "plugin", "info", "json")
	if err != nil {
		t.Fatal(err)
	}
	logger.Debug("not this one")
	klog.Background().Error(nil, "client-go speaks at debug")
	logger.Warn("this one", "rollout", "demo/app")
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("not one line of JSON: %v: %s", err, out)
	}
	for key, want := range map[string]string{"@level": "warn", "@message": "this one", "rollout": "demo/app"} {
		if line[key] != want {
			t.Errorf("%s = %v, want %s", key, line[key], want)
		}
	}
	if line["@timestamp"] == nil {
		t.Error("no @timestamp")
	}
}

func TestTextAndDebug(t *testing.T) {
	out := &bytes.Buffer{}
	logger, err := NewLogger(out, "plugin", "debug", "text")
	if err != nil {
		t.Fatal(err)
	}
	logger.Debug("shown")
	klog.Background().Info("from client-go")
	if got := out.String(); !strings.Contains(got, "[DEBUG] plugin: shown") || !strings.Contains(got, "from client-go") {
		t.Errorf("log: %s", got)
	}
}
