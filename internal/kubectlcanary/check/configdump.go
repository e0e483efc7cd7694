package check

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// Little is read from the admin interface of Envoy: all routes, because it cannot
// filter them, and the names of the clusters of one HTTPScaledObject.
const (
	dynamicRoutes  = "dynamic_route_configs"
	inlineRoutes   = "static_route_configs" // those that came with a listener
	activeClusters = "dynamic_active_clusters"
	warmClusters   = "dynamic_warming_clusters"
)

// routesQuery asks /config_dump for route configurations. Envoy answers 400 to a
// mask with a field that the resource lacks, and those of a listener have no version.
func routesQuery(resource string) url.Values {
	mask := "route_config.virtual_hosts"
	if resource == dynamicRoutes {
		mask += ",version_info"
	}
	return url.Values{"resource": {resource}, "mask": {mask}}
}

// clustersQuery asks /config_dump for the names of the clusters that begin with
// prefix. Envoy's regular expression has to match the whole name.
func clustersQuery(resource, prefix string) url.Values {
	return url.Values{"resource": {resource}, "mask": {"cluster.name"}, "name_regex": {regexp.QuoteMeta(prefix) + ".*"}}
}

// statsQuery asks /stats whether Envoy is connected to its interceptor, whether it has
// refused anything, and whether its bootstrap has it report its load.
func statsQuery() url.Values {
	return url.Values{"format": {"json"}, "filter": {`^(control_plane\.connected_state|cluster_manager\.cds\.update_rejected|listener_manager\.lds\.update_rejected|http\..*\.rds\..*\.update_rejected|load_reporter\.responses)$`}}
}

// routesDump is the part of Envoy's route configurations that the checks read.
type routesDump struct {
	Configs []struct {
		Version string `json:"version_info"`
		Routes  struct {
			VirtualHosts []struct {
				Domains []string    `json:"domains"`
				Routes  []dumpRoute `json:"routes"`
			} `json:"virtual_hosts"`
		} `json:"route_config"`
	} `json:"configs"`
}

type dumpRoute struct {
	Route struct {
		Cluster  string `json:"cluster"`
		Weighted struct {
			Clusters []struct {
				Name   string `json:"name"`
				Weight uint64 `json:"weight"`
			} `json:"clusters"`
		} `json:"weighted_clusters"`
	} `json:"route"`
}

// servedSplit is what a proxy does with requests of an HTTPScaledObject.
type servedSplit struct {
	// domain is the host of these requests; Envoy has a split for each host.
	domain  string
	weights []servedWeight
}

type servedWeight struct {
	service string
	weight  uint64
}

func parseRoutes(data []byte) (*routesDump, error) {
	var dump routesDump
	if err := json.Unmarshal(data, &dump); err != nil {
		return nil, fmt.Errorf("unreadable routes in Envoy's config_dump: %w", err)
	}
	return &dump, nil
}

// over returns the splits over clusters that begin with the prefix, with the
// version of the configuration that they are in.
func (d *routesDump) over(prefix string) (splits []servedSplit, version string) {
	for _, config := range d.Configs {
		for _, host := range config.Routes.VirtualHosts {
			for _, route := range host.Routes {
				if weights := route.weights(prefix); len(weights) > 0 {
					splits = append(splits, servedSplit{strings.Join(host.Domains, ", "), weights})
					version = config.Version
				}
			}
		}
	}
	return splits, version
}

// weights returns the weights of the clusters of a route, by Service, or nothing if
// no cluster has the prefix: the route is of another HTTPScaledObject. A cluster
// without the prefix is named in full.
func (r dumpRoute) weights(prefix string) []servedWeight {
	if r.Route.Cluster != "" {
		if service, its := strings.CutPrefix(r.Route.Cluster, prefix); its {
			return []servedWeight{{service, 1}}
		}
		return nil
	}
	var weights []servedWeight
	its := false
	for _, c := range r.Route.Weighted.Clusters {
		service, is := strings.CutPrefix(c.Name, prefix)
		its = its || is
		weights = append(weights, servedWeight{service, c.Weight})
	}
	if !its {
		return nil
	}
	return weights
}

// parseClusters returns the Services whose clusters begin with the prefix.
func parseClusters(data []byte, prefix string) ([]string, error) {
	var dump struct {
		Configs []struct {
			Cluster struct {
				Name string `json:"name"`
			} `json:"cluster"`
		} `json:"configs"`
	}
	if err := json.Unmarshal(data, &dump); err != nil {
		return nil, fmt.Errorf("unreadable clusters in Envoy's config_dump: %w", err)
	}
	var services []string
	for _, config := range dump.Configs {
		if service, its := strings.CutPrefix(config.Cluster.Name, prefix); its {
			services = append(services, service)
		}
	}
	return services, nil
}

// envoyState is what Envoy says about its connection to the interceptor.
type envoyState struct {
	// known is false for an Envoy that does not say whether it is connected.
	known, connected bool
	// rejected is how many updates it has refused since it started.
	rejected uint64
	// reportsLoad is whether its bootstrap has load_stats_config.
	reportsLoad bool
}

func parseState(data []byte) (envoyState, error) {
	var answer struct {
		Stats []struct {
			Name  string `json:"name"`
			Value uint64 `json:"value"`
		} `json:"stats"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return envoyState{}, fmt.Errorf("unreadable statistics of Envoy: %w", err)
	}
	var state envoyState
	for _, stat := range answer.Stats {
		switch stat.Name {
		case "control_plane.connected_state":
			state.known, state.connected = true, stat.Value > 0
		case "load_reporter.responses":
			state.reportsLoad = true
		default:
			state.rejected += stat.Value
		}
	}
	return state, nil
}
