package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
)

// updateLine is a line of BenchmarkUpdate.
var updateLine = regexp.MustCompile(`(?m)^BenchmarkUpdate/([^/]+)/objects=(\d+)\S*\s+\d+\s+([\d.]+) ns/op`)

// table prints the cost of a change in routing tables of different sizes, as
// measured by the benchmark beside the code.
func table(ctx context.Context, o *options) error {
	gauge.Say("the routing table after one change")
	cmd := exec.CommandContext(ctx, o.routes, "-test.run", "^$", "-test.bench", "^BenchmarkUpdate$/^(weight|endpoints|hosts)$", "-test.benchtime", "200ms", "-test.count", "5")
	cmd.Stderr = os.Stderr
	output, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("the benchmark of the routing table: %w\n%s", err, output)
	}
	costs := map[string]map[int][]float64{}
	for _, found := range updateLine.FindAllStringSubmatch(string(output), -1) {
		size, err := strconv.Atoi(found[2])
		if err != nil {
			return err
		}
		cost, err := strconv.ParseFloat(found[3], 64)
		if err != nil {
			return err
		}
		if costs[found[1]] == nil {
			costs[found[1]] = map[int][]float64{}
		}
		costs[found[1]][size] = append(costs[found[1]][size], cost/1e3)
	}
	printed := gauge.NewTable("the table after one change of\t100 objects\t1,000\t10,000\tratio\tbar")
	for _, change := range []string{"weight", "endpoints", "hosts"} {
		by := costs[change]
		if len(by[100]) == 0 || len(by[1000]) == 0 || len(by[10000]) == 0 {
			return errors.New("the benchmark of the routing table does not say what it costs to change " + change)
		}
		// Take the minimum: other load on the machine can only add to the time.
		small, middle, large := slices.Min(by[100]), slices.Min(by[1000]), slices.Min(by[10000])
		printed.Row("%s\t%.1f µs\t%.1f µs\t%.1f µs\t%.2f\tat most 2.00 %s", change, small, middle, large, large/small, gauge.Mark(large <= 2*small))
	}
	printed.Print()
	return nil
}
