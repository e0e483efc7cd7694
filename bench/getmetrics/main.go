// Command getmetrics asks a scaler for the metrics of many ScaledObjects, one after the
// other as fast as it answers, and prints how long the answers took: the median and the
// 99th percentile, in microseconds, as JSON. `make bench-scaling` runs it.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/kedify/argo-rollouts-plugin/internal/scaler/externalscaler"
)

// times are in microseconds.
type times struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

func main() {
	address := flag.String("address", "", "the scaler's address")
	namespace := flag.String("namespace", "", "the objects' namespace")
	name := flag.String("name", "", "the objects' names, with a verb for their numbers from 0")
	objects := flag.Int("objects", 0, "how many objects there are")
	calls := flag.Int("calls", 0, "how many calls to make")
	flag.Parse()
	took, err := measure(context.Background(), *address, *namespace, *name, *objects, *calls)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(took)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "getmetrics:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, address, namespace, name string, objects, calls int) (times, error) {
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return times{}, err
	}
	defer func() { _ = connection.Close() }()
	scaler := externalscaler.NewExternalScalerClient(connection)
	requests := make([]*externalscaler.GetMetricsRequest, objects)
	for i := range requests {
		ref := &externalscaler.ScaledObjectRef{Namespace: namespace, Name: fmt.Sprintf(name, i)}
		spec, err := scaler.GetMetricSpec(ctx, ref)
		if err != nil {
			return times{}, err
		}
		requests[i] = &externalscaler.GetMetricsRequest{ScaledObjectRef: ref, MetricName: spec.GetMetricSpecs()[0].GetMetricName()}
	}
	took := make([]float64, calls)
	for i := range took {
		began := time.Now()
		answer, err := scaler.GetMetrics(ctx, requests[i%objects])
		if err != nil {
			return times{}, err
		}
		took[i] = float64(time.Since(began)) / 1e3
		if value := answer.GetMetricValues()[0].GetMetricValueFloat(); value <= 0 {
			return times{}, fmt.Errorf("%s has %v requests/s; expected one", requests[i%objects].GetMetricName(), value)
		}
	}
	slices.Sort(took)
	return times{P50: took[calls/2], P99: took[calls*99/100]}, nil
}
