package proxy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// RouteList is a routing table as /debug/routes shows it.
type RouteList struct {
	Generation uint64        `json:"generation"`
	Routes     []ListedRoute `json:"routes"`
	// Problems has the problems of all objects, in the table or not, by namespace and
	// name.
	Problems []ListedProblem `json:"problems,omitempty"`
}

// ListedRoute is what is served for one HTTPScaledObject.
type ListedRoute struct {
	Namespace    string          `json:"namespace"`
	Name         string          `json:"name"`
	Hosts        []string        `json:"hosts"`
	PathPrefixes []string        `json:"pathPrefixes"`
	Headers      []ListedHeader  `json:"headers,omitempty"`
	Rollout      string          `json:"rollout,omitempty"`
	Cold         bool            `json:"cold,omitempty"`
	Backends     []ListedBackend `json:"backends"`
	Failover     *ListedFailover `json:"failover,omitempty"`
}

// ListedHeader is a header that a route matches. Its value may be a secret and is not
// shown; AnyValue tells whether any value matches.
type ListedHeader struct {
	Name     string `json:"name"`
	AnyValue bool   `json:"anyValue,omitempty"`
}

// ListedBackend is one backend of a route. Weight is its weight as set, and Share the
// share that it gets now, relative to the sum of all shares.
type ListedBackend struct {
	Service  string           `json:"service"`
	Weight   uint32           `json:"weight"`
	Share    uint32           `json:"share"`
	Protocol string           `json:"protocol"`
	Ready    []netip.AddrPort `json:"ready"`
	Draining []netip.AddrPort `json:"draining,omitempty"`
}

// ListedFailover takes the requests of a cold start that lasts longer than After.
type ListedFailover struct {
	Service string           `json:"service"`
	After   string           `json:"after"`
	Ready   []netip.AddrPort `json:"ready"`
}

// ListedProblem is what is wrong with an HTTPScaledObject.
type ListedProblem struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Reason    string `json:"reason"`
	Message   string `json:"message"`
}

// writeRoutes writes the JSON of a RouteList: the routes by namespace and name, and
// problems, which may be more than the table has. Routes and problems are encoded one at
// a time: only one is in memory, however slowly a client reads.
func writeRoutes(w io.Writer, table *routes.Table, problems []routes.Problem) error {
	if _, err := fmt.Fprintf(w, "{\n  \"generation\": %d,\n  \"routes\": ", table.Generation()); err != nil {
		return err
	}
	err := writeList(w, func(yield func(any) bool) {
		for r := range table.Routes() {
			if !yield(listedRoute(r)) {
				return
			}
		}
	})
	if err == nil && len(problems) > 0 {
		problems = slices.Clone(problems)
		slices.SortFunc(problems, func(a, b routes.Problem) int {
			return cmp.Or(strings.Compare(a.Object.Namespace, b.Object.Namespace), strings.Compare(a.Object.Name, b.Object.Name),
				strings.Compare(string(a.Reason), string(b.Reason)), strings.Compare(a.Message, b.Message))
		})
		if _, err = io.WriteString(w, ",\n  \"problems\": "); err == nil {
			err = writeList(w, func(yield func(any) bool) {
				for _, p := range problems {
					if !yield(ListedProblem{p.Object.Namespace, p.Object.Name, string(p.Reason), p.Message}) {
						return
					}
				}
			})
		}
	}
	if err == nil {
		_, err = io.WriteString(w, "\n}\n")
	}
	return err
}

// writeList writes a JSON array, indented as a member of the outermost object.
func writeList(w io.Writer, all iter.Seq[any]) error {
	before, end := "[\n    ", "[]"
	for one := range all {
		text, err := json.MarshalIndent(one, "    ", "  ")
		if err != nil {
			return err
		}
		if _, err := io.WriteString(w, before); err != nil {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
		before, end = ",\n    ", "\n  ]"
	}
	_, err := io.WriteString(w, end)
	return err
}

func listedRoute(r *routes.Route) ListedRoute {
	listed := ListedRoute{
		Namespace: r.Name.Namespace, Name: r.Name.Name,
		Hosts: r.Hosts(), PathPrefixes: r.PathPrefixes(), Rollout: r.Rollout, Cold: r.Cold(),
	}
	for _, h := range r.Headers() {
		listed.Headers = append(listed.Headers, ListedHeader{h.Name, h.Value == ""})
	}
	for i := range r.Backends {
		b := &r.Backends[i]
		listed.Backends = append(listed.Backends, ListedBackend{
			Service: b.Service, Weight: b.Weight, Share: b.Share, Protocol: b.Protocol.String(),
			Ready: notNil(b.Ready), Draining: b.Draining,
		})
	}
	if f := r.Failover; f != nil {
		listed.Failover = &ListedFailover{Service: f.Service, After: f.After.String(), Ready: notNil(f.Ready)}
	}
	return listed
}

// notNil has an empty list encoded as [], and not as null.
func notNil(addresses []netip.AddrPort) []netip.AddrPort {
	if addresses == nil {
		return []netip.AddrPort{}
	}
	return addresses
}

// Print writes the list for a terminal: a line for each backend, and the
// problems below. There is a column for headers where a route has any.
func (l *RouteList) Print(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	matches := []string{"NAMESPACE", "HTTPSO", "HOSTS", "PATHS"}
	headers := slices.ContainsFunc(l.Routes, func(r ListedRoute) bool { return len(r.Headers) > 0 })
	if headers {
		matches = append(matches, "HEADERS")
	}
	fmt.Fprintf(table, "%s\tROLLOUT\tSERVICE\tWEIGHT\tSHARE\tREADY\tPROTOCOL\n", strings.Join(matches, "\t"))
	for i := range l.Routes {
		r := &l.Routes[i]
		var total uint64
		for _, b := range r.Backends {
			total += uint64(b.Share)
		}
		for j, b := range r.Backends {
			share := "cold"
			if total > 0 {
				share = fmt.Sprintf("%.4g %%", 100*float64(b.Share)/float64(total))
			}
			if j == 0 {
				fmt.Fprintf(table, "%s\t%s\t%s\t%s", r.Namespace, r.Name, strings.Join(r.Hosts, ","), strings.Join(r.PathPrefixes, ","))
				if headers {
					fmt.Fprintf(table, "\t%s", orDash(headerList(r.Headers)))
				}
				fmt.Fprintf(table, "\t%s", orDash(r.Rollout))
			} else {
				fmt.Fprint(table, strings.Repeat("\t", len(matches)))
			}
			fmt.Fprintf(table, "\t%s\t%d\t%s\t%d\t%s\n", b.Service, b.Weight, share, len(b.Ready), b.Protocol)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, p := range l.Problems {
		if _, err := fmt.Fprintf(w, "%s/%s: %s: %s\n", p.Namespace, p.Name, p.Reason, p.Message); err != nil {
			return err
		}
	}
	return nil
}

// headerList shows the name of each header, followed by =... if the value matters. It
// shows no value.
func headerList(headers []ListedHeader) string {
	all := make([]string, len(headers))
	for i, h := range headers {
		all[i] = h.Name
		if !h.AnyValue {
			all[i] += "=..."
		}
	}
	return strings.Join(all, ",")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
