package gauge

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Get requests a page once.
func Get(ctx context.Context, client *http.Client, url, host string) (code int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	request.Host = host
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// Metric returns a metric of a page of metrics: the sum of those of its series whose labels
// are counted.
func Metric(page, name string, counted func(labels string) bool) (sum float64, err error) {
	found := false
	for line := range strings.Lines(page) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), name)
		if !ok || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		end := strings.LastIndexByte(rest, ' ')
		value, err := strconv.ParseFloat(rest[end+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", line, err)
		}
		if found = true; counted(rest[:end]) {
			sum += value
		}
	}
	if !found {
		return 0, fmt.Errorf("the page has no %s", name)
	}
	return sum, nil
}

// All counts all series of a metric.
func All(string) bool { return true }
