package proxyworld

import (
	"bufio"
	"context"
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

// Metric returns a metric without labels, or the sum of one that has them, from
// a page of metrics.
func Metric(page, name string) (float64, bool) {
	sum, found := 0.0, false
	for lines := bufio.NewScanner(strings.NewReader(page)); lines.Scan(); {
		series := lines.Text()
		rest, ok := strings.CutPrefix(series, name)
		if !ok || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		if number, err := strconv.ParseFloat(series[strings.LastIndexByte(series, ' ')+1:], 64); err == nil {
			sum, found = sum+number, true
		}
	}
	return sum, found
}
