package check

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Little is read from the admin interface of Envoy: all routes, because it cannot
// filter them, and the names of the clusters of one HTTPScaledObject.
const (
	dynamicRoutes  = "dynamic_route_configs"
	inlineRoutes   = "static_route_configs" // those that came with a listener
	activeClusters = "dynamic_active_clusters"
)

// routesQuery asks /config_dump for route configurations.
func routesQuery(resource string) url.Values {
	return url.Values{"resource": {resource}, "mask": {"route_config.virtual_hosts"}}
}

// clustersQuery asks /config_dump for the names of the clusters that begin with
// prefix. Envoy's regular expression has to match the whole name.
func clustersQuery(prefix string) url.Values {
	return url.Values{"resource": {activeClusters}, "mask": {"cluster.name"}, "name_regex": {regexp.QuoteMeta(prefix) + ".*"}}
}

// statsQuery asks /stats whether Envoy is connected to its interceptor, and whether it has
// refused anything.
func statsQuery() url.Values {
	return url.Values{"format": {"json"}, "filter": {`^(control_plane\.connected_state|cluster_manager\.cds\.update_rejected|listener_manager\.lds\.update_rejected|http\..*\.rds\..*\.update_rejected)$`}}
}

// routesDump is the part of Envoy's route configurations that the checks read.
type routesDump struct {
	Configs []struct {
		Routes struct {
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
				Weight uint32 `json:"weight"`
			} `json:"clusters"`
		} `json:"weighted_clusters"`
	} `json:"route"`
}

// clustersDump are names of Envoy's clusters.
type clustersDump struct {
	Configs []struct {
		Cluster struct {
			Name string `json:"name"`
		} `json:"cluster"`
	} `json:"configs"`
}

// statsDump are statistics of Envoy.
type statsDump struct {
	Stats []struct {
		Name  string `json:"name"`
		Value uint64 `json:"value"`
	} `json:"stats"`
}

// askEnvoy reads from a kedify-proxy the routes once, for each HTTPScaledObject the names of its
// clusters, and what the Envoy says of its interceptor.
func askEnvoy(ctx context.Context, pod podProxy, objects []httpScaledObject) (map[string]served, bool, *readError) {
	var dynamic, inline routesDump
	var stats statsDump
	for resource, dump := range map[string]*routesDump{dynamicRoutes: &dynamic, inlineRoutes: &inline} {
		if err := pod.read(ctx, "/config_dump", routesQuery(resource), dump); err != nil {
			return nil, false, err
		}
	}
	if err := pod.read(ctx, "/stats", statsQuery(), &stats); err != nil {
		return nil, false, err
	}
	have := map[string]served{}
	for _, o := range objects {
		prefix := o.Namespace + "/" + o.Name + "/"
		var clusters clustersDump
		if err := pod.read(ctx, "/config_dump", clustersQuery(prefix), &clusters); err != nil {
			return nil, false, err
		}
		have[o.Name] = served{
			splits:   slices.Concat(dynamic.over(prefix), inline.over(prefix)),
			clusters: clusters.services(prefix), says: stats.says(),
		}
	}
	return have, true, nil
}

// over returns the splits over clusters that begin with the prefix.
func (d routesDump) over(prefix string) []servedSplit {
	var splits []servedSplit
	for _, config := range d.Configs {
		for _, host := range config.Routes.VirtualHosts {
			for _, route := range host.Routes {
				if weights := route.weights(prefix); len(weights) > 0 {
					splits = append(splits, servedSplit{strings.Join(host.Domains, ", "), weights})
				}
			}
		}
	}
	return splits
}

// weights returns the weights of the clusters of a route, by Service, or nothing if
// no cluster has the prefix: the route is of another HTTPScaledObject. A cluster
// without the prefix is named in full.
func (r dumpRoute) weights(prefix string) []servedWeight {
	if service, its := strings.CutPrefix(r.Route.Cluster, prefix); its {
		return []servedWeight{{service, 1}}
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

// services returns the Services whose clusters begin with the prefix.
func (d clustersDump) services(prefix string) []string {
	services := []string{}
	for _, config := range d.Configs {
		if service, its := strings.CutPrefix(config.Cluster.Name, prefix); its {
			services = append(services, service)
		}
	}
	return services
}

// says returns what Envoy's statistics say of its connection to the interceptor; nothing where
// all is well.
func (d statsDump) says() string {
	var refused uint64
	for _, stat := range d.Stats {
		switch {
		case stat.Name == "control_plane.connected_state" && stat.Value == 0:
			return "it is not connected to the interceptor"
		case stat.Name != "control_plane.connected_state":
			refused += stat.Value
		}
	}
	if refused > 0 {
		return fmt.Sprintf("it has refused %s, and its log says why", count(int(refused), "update"))
	}
	return ""
}

// interceptorRoutes is the part of an interceptor's /debug/routes that the
// checks read.
type interceptorRoutes struct {
	Routes []struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
		Backends  []struct {
			Service string `json:"service"`
			Weight  uint32 `json:"weight"`
		} `json:"backends"`
	} `json:"routes"`
	Problems []struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
		Message   string `json:"message"`
	} `json:"problems"`
}

// askInterceptor reads the routes of an interceptor. Kedify's own does not show them.
func askInterceptor(ctx context.Context, pod podProxy, objects []httpScaledObject) (map[string]served, bool, *readError) {
	var answer interceptorRoutes
	err := pod.read(ctx, "/debug/routes", nil, &answer)
	if err != nil {
		if err.notFound() {
			err = nil
		}
		return nil, false, err
	}
	have := map[string]served{}
	for _, o := range objects {
		have[o.Name] = answer.of(o)
	}
	return have, true, nil
}

func (r interceptorRoutes) of(o httpScaledObject) served {
	var have served
	for _, route := range r.Routes {
		if route.Namespace != o.Namespace || route.Name != o.Name {
			continue
		}
		var split servedSplit
		for _, b := range route.Backends {
			split.weights = append(split.weights, servedWeight{b.Service, b.Weight})
		}
		have.splits = append(have.splits, split)
	}
	for _, p := range r.Problems {
		if p.Namespace == o.Namespace && p.Name == o.Name {
			have.says = "it says: " + p.Message
		}
	}
	return have
}
