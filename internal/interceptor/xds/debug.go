package xds

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"
)

// ListEnvoys serves what each connected Envoy was sent and has acknowledged, as a
// JSON list of EnvoyState. Each state is copied before it is written: a client that
// reads slowly delays no Envoy, and memory is needed for one Envoy at a time.
func (s *Server) ListEnvoys(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	before := "[\n"
	for _, st := range s.connected() {
		if _, err := io.WriteString(w, before); err != nil {
			return
		}
		if encoder.Encode(st.state()) != nil {
			return
		}
		before = ",\n"
	}
	if before == "[\n" {
		_, _ = io.WriteString(w, "[") // a client that has gone needs no answer
	}
	_, _ = io.WriteString(w, "]\n")
}

// EnvoyList is what ListEnvoys serves.
type EnvoyList []EnvoyState

// Print writes the list for a terminal: a line for each Envoy, and below these lines one
// for each object that an Envoy has not acknowledged. Times are in UTC.
func (l *EnvoyList) Print(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ENVOY\tADDRESS\tNAMESPACES\tCONNECTED\tOBJECTS\tUNACKNOWLEDGED\tROUTES\tACKNOWLEDGED")
	for i := range *l {
		e := &(*l)[i]
		routes, at := "-", "-"
		for _, t := range e.Types {
			if t.Type == kindNames[rds] && t.Acknowledged != nil {
				routes, at = t.Acknowledged.Version, shown(t.Acknowledged.At)
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\n", cmp.Or(e.Pod, "-"), e.Address,
			cmp.Or(strings.Join(e.Namespaces, ","), "all"), shown(e.Connected), e.Objects, e.Unacknowledged, routes, at)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for i := range *l {
		e := &(*l)[i]
		for _, o := range e.UnacknowledgedObjects {
			if _, err := fmt.Fprintf(w, "%s: %s/%s: %s since %s\n", cmp.Or(e.Pod, e.Address), o.Namespace, o.Name, o.State, shown(o.Since)); err != nil {
				return err
			}
		}
		if more := e.Unacknowledged - len(e.UnacknowledgedObjects); more > 0 {
			if _, err := fmt.Fprintf(w, "%s: %d more\n", cmp.Or(e.Pod, e.Address), more); err != nil {
				return err
			}
		}
	}
	return nil
}

func shown(at time.Time) string { return at.UTC().Format(time.DateTime) }
