package gauge

import (
	"os"
	"testing"
	"time"
)

func TestProcess(t *testing.T) {
	before, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		after, err := CPU(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if after > before {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a minute of work has taken no processor time")
		}
	}
	mb, err := Resident(os.Getpid())
	if err != nil || mb < 1 || mb > 1e4 {
		t.Errorf("resident memory %v MB, %v", mb, err)
	}
	if peak, err := PeakResident(os.Getpid()); err != nil || peak < mb {
		t.Errorf("resident memory %v MB at its peak and %v before, %v", peak, mb, err)
	}
	if _, err := Resident(-1); err == nil {
		t.Error("a process that there cannot be has memory")
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
