package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The level of the log changes while the interceptor runs.
func TestLogLevelOfARunningInterceptor(t *testing.T) {
	_, of, out := started(t, "--log-level=error", "--log-format=text")
	admin := fmt.Sprintf("--admin=http://127.0.0.1:%d", of["admin-port"])
	if strings.Contains(out.String(), "level=") {
		t.Errorf("logged at error:\n%s", out)
	}
	for _, tc := range []struct {
		to, says string
		ok       bool
	}{
		{"", "error", true}, {"debug", "debug", true}, {"", "debug", true},
		{"loud", `expected debug, info, warn or error`, false},
	} {
		text, err := invoke("log-level", admin, tc.to)
		if tc.to == "" {
			text, err = invoke("log-level", admin)
		}
		if err != nil {
			text += err.Error()
		}
		if (err == nil) != tc.ok || !strings.Contains(text, tc.says) {
			t.Errorf("log-level %s: %q; want %q", tc.to, text, tc.says)
		}
	}
	eventually(t, "logged", out, func() bool {
		return strings.Contains(out.String(), "level=WARN") && strings.Contains(out.String(), "from=ERROR to=DEBUG")
	})
}

// Only a connection to a loopback address may change the level.
func TestLogLevelCannotBeChangedFromOtherPods(t *testing.T) {
	level := new(slog.LevelVar)
	handler := logLevelHandler(level, slog.New(slog.DiscardHandler))
	for address, want := range map[string]int{"10.0.0.1": http.StatusForbidden, "fd00::1": http.StatusForbidden, "127.0.0.1": http.StatusOK, "::1": http.StatusOK} {
		level.Set(slog.LevelInfo)
		r := httptest.NewRequest(http.MethodPut, logLevelPath, strings.NewReader("debug\n"))
		r = r.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP(address)}))
		// A sidecar connects for other pods from loopback.
		r.RemoteAddr = "127.0.0.6:1"
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != want || (level.Level() == slog.LevelDebug) != (want == http.StatusOK) {
			t.Errorf("at %s: %d, level %v; want %d", address, w.Code, level.Level(), want)
		}
	}
}
