package gauge

import (
	"os/exec"
	"testing"
	"time"
)

// What a process has started counts, too: the shell itself only waits.
func TestProcess(t *testing.T) {
	p, err := Launch(exec.Command("sh", "-c", "echo begun; trap 'kill $!' TERM; while :; do :; done & wait"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.End()
	if err := Poll(t.Context(), 10*time.Millisecond, "it is in the log, and takes processor time", func() (bool, error) {
		took, err := p.CPU()
		return took > 0 && p.Log.String() == "begun\n", err
	}); err != nil {
		t.Fatal(err)
	}
	mb, err := p.Resident()
	if err != nil || mb < 0.1 || mb > 1e3 {
		t.Errorf("resident memory %v MB, %v", mb, err)
	}
	if peak, err := p.Peak(); err != nil || peak < mb {
		t.Errorf("resident memory %v MB at its peak and %v before, %v", peak, mb, err)
	}
	p.End()
	if _, err := p.Resident(); err == nil {
		t.Error("a process that has ended has memory")
	}
}

func TestMetric(t *testing.T) {
	const page = "# HELP a_total Requests.\na_total{verb=\"GET\"} 2\na_total{verb=\"PUT\"} 1e3\na_total_more 7\nbare 5.5\n"
	gets := func(labels string) bool { return labels == `{verb="GET"}` }
	for _, test := range []struct {
		name    string
		counted func(string) bool
		want    float64
	}{{"a_total", All, 1002}, {"a_total", gets, 2}, {"bare", All, 5.5}} {
		if got, err := Metric(page, test.name, test.counted); got != test.want || err != nil {
			t.Errorf("%s: %v, %v; want %v", test.name, got, err, test.want)
		}
	}
	if _, err := Metric(page, "b_total", All); err == nil {
		t.Error("a metric that the page lacks has a value")
	}
}

func TestQuantile(t *testing.T) {
	var hundred []int
	for i := range 100 {
		hundred = append(hundred, i)
	}
	for q, expected := range map[float64]int{0: 0, 0.5: 50, 0.99: 99, 1: 99} {
		if got := Quantile(hundred, q); got != expected {
			t.Errorf("%v of 0..99: %d, expected %d", q, got, expected)
		}
	}
	unsorted := []float64{3, 1, 2}
	if got := Median(unsorted); got != 2 || unsorted[0] != 3 {
		t.Errorf("median %v, and the values are %v", got, unsorted)
	}
}
