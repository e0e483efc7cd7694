package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/progress"
)

func statusCommand(w *which) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show a sandbox's components, node, pods and addresses",
		Long:  "Show a sandbox's components, node, pods and addresses. The exit code is 1 unless it is up.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "" && output != "json" {
				return fmt.Errorf("--output %q: must be json, or be left out", output)
			}
			s, err := w.here()
			if err != nil {
				return err
			}
			status, err := s.Status(cmd.Context())
			if err != nil {
				return err
			}
			if output == "json" {
				encoder := json.NewEncoder(cmd.OutOrStdout())
				encoder.SetIndent("", "  ")
				err = encoder.Encode(status)
			} else {
				err = printStatus(cmd.OutOrStdout(), status, time.Now())
				if err == nil && !cluster.Inside() {
					_, err = fmt.Fprintln(cmd.OutOrStdout(), "\n"+entering(w, s.Layout()))
				}
			}
			if err == nil && status.Phase != cluster.PhaseUp {
				err = exitError(1)
			}
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json for everything, in a form for programs")
	return cmd
}

func printStatus(out io.Writer, s *cluster.Status, now time.Time) error {
	var text strings.Builder
	_, _ = fmt.Fprintf(&text, "sandbox %s: %s, for %s\n", s.Name, strings.ToLower(s.Phase), progress.Seconds(now.Sub(s.Since)))
	if s.Error != "" {
		_, _ = fmt.Fprintf(&text, "%s\n", s.Error)
	}
	_, _ = fmt.Fprintf(&text, "Kubernetes %s, with %s\n", s.Kubernetes, withAddons(s.Addons))
	table := tabwriter.NewWriter(&text, 0, 8, 2, ' ', 0)
	row := func(cells ...string) {
		_, _ = fmt.Fprintln(table, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
	}
	row("\nCOMPONENT", "STATE", "PID", "SINCE", "")
	for _, c := range s.Components {
		pid, since, note := "-", "-", ""
		if c.PID != 0 {
			pid, since = fmt.Sprint(c.PID), progress.Seconds(now.Sub(c.Since))
		}
		if c.Deaths > 0 {
			note = fmt.Sprintf("deaths: %d, the last: %s", c.Deaths, c.LastDeath)
		}
		row(c.Name, c.State, pid, since, note)
	}
	_ = table.Flush()
	for _, c := range s.Components {
		if c.Deaths > 0 {
			_, _ = fmt.Fprintf(&text, "\n%s %s; its log ended with\n%s\n", c.Name, c.LastDeath, c.LastLog)
		}
	}
	_, _ = fmt.Fprintf(&text, "\nnode %s: %s\n", cluster.NodeName, s.Node)

	switch {
	case s.PodsError != "":
		_, _ = fmt.Fprintf(&text, "pods: %s\n", s.PodsError)
	case len(s.Pods) == 0:
		_, _ = fmt.Fprintln(&text, "no pods")
	default:
		row("\nNAMESPACE", "POD", "STATE", "READY", "IP")
		for _, pod := range s.Pods {
			ready := "no"
			if pod.Ready {
				ready = "yes"
			}
			row(pod.Namespace, pod.Name, brief(pod.State), ready, pod.IP)
		}
		_ = table.Flush()
	}
	_, _ = fmt.Fprintf(&text, `
addresses, inside:
  API server  %s   KUBECONFIG=%s
  node, pods  %s, %s
  services    %s, of type LoadBalancer %s, DNS %s
  releases    http://%s/   from %s
`, cluster.APIServerURL, cluster.Layout{Dir: s.Dir}.Kubeconfig(), cluster.NodeIP, cluster.PodCIDR,
		cluster.ServiceCIDR, cluster.LoadBalancerCIDR, cluster.ClusterDNS, cluster.ReleasesHost, cluster.Layout{Dir: s.Dir}.Releases())
	_, err := io.WriteString(out, text.String())
	return err
}

// withAddons lists add-ons in a sentence.
func withAddons(addons []cluster.AddonStatus) string {
	if len(addons) == 0 {
		return "no add-ons"
	}
	list := make([]string, len(addons))
	for i, a := range addons {
		list[i] = strings.TrimSpace(a.Name + " " + a.Version)
	}
	return strings.Join(list, ", ")
}

// stateWidth keeps one pod's error from widening the table for all; `kubectl
// describe pod` has the rest.
const stateWidth = 60

func brief(state string) string {
	state, _, cut := strings.Cut(state, "\n")
	if runes := []rune(state); len(runes) > stateWidth {
		state, cut = string(runes[:stateWidth]), true
	}
	if cut {
		state += "…"
	}
	return state
}
