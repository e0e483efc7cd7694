package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// report prints the results of the mutations. It is an error when one of them was not
// caught. before is how many an earlier run has caught.
func (a *attempt) report(mutations []mutation, before int, took time.Duration) error {
	count := map[verdict]int{}
	var reasons strings.Builder
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "\nmutation\tbreaks\ttests\tresult\tseconds")
	for _, m := range mutations {
		r, ok := a.results.Mutations[m.Name]
		if !ok {
			r.Verdict = left
		}
		count[r.Verdict]++
		var tests []string
		for _, t := range m.tests() {
			tests = append(tests, t.name)
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.0f\n", m.Name, m.Breaks, strings.Join(tests, ", "), r.Verdict, r.Seconds)
		if r.Reason != "" {
			fmt.Fprintf(&reasons, "%s: %s: %s\n", m.Name, r.Verdict, r.Reason)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	a.say("\n%d caught (%d of them by an earlier run), %d survived, %d not tried, %d left for the next run, in %s\n%s",
		count[caught], before, count[survived], count[notTried], count[left], took.Round(time.Second), reasons.String())
	if count[caught] < len(mutations) {
		return fmt.Errorf("%d of %d mutations were not caught", len(mutations)-count[caught], len(mutations))
	}
	return nil
}
