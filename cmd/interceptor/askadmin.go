package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func addAdminFlag(cmd *cobra.Command, admin *string) {
	cmd.Flags().StringVar(admin, "admin", "http://127.0.0.1:9090", "admin address of the interceptor")
}

// askAdmin sends a request to the admin port of an interceptor. It returns an error for
// any answer but 200.
func askAdmin(ctx context.Context, method, admin, path, body string) (*http.Response, error) {
	at := strings.TrimSuffix(admin, "/") + path
	request, err := http.NewRequestWithContext(ctx, method, at, strings.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("--admin: %w", err)
	}
	response, err := (&http.Client{Timeout: 30 * time.Second}).Do(request)
	if err != nil {
		return nil, fmt.Errorf("no interceptor answers (kubectl port-forward to port 9090 of one, or run this in its pod): %w", err)
	}
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
		_ = response.Body.Close()
		return nil, fmt.Errorf("%s answers %s: %s; is this the admin port of an interceptor?", at, response.Status, strings.TrimSpace(string(text)))
	}
	return response, nil
}
