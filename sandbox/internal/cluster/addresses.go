package cluster

import "net/netip"

// NodeName is the name of the sandbox's only node.
const NodeName = "sandbox"

// Addresses inside every sandbox. Each sandbox has a network of its own, so
// they are the same in all of them.
var (
	// NodeIP is the node and the API server.
	NodeIP = netip.MustParseAddr("10.244.0.1")
	// ReleasesIP is the releases server. It has an address of its own because port 80
	// of the node is for pods that ask for it as a hostPort.
	ReleasesIP = netip.MustParseAddr("10.244.0.2")
	// PodCIDR is the network of the node and its pods.
	PodCIDR = netip.MustParsePrefix("10.244.0.0/16")
	// ServiceCIDR is the range of ClusterIPs.
	ServiceCIDR = netip.MustParsePrefix("10.96.0.0/16")
	// LoadBalancerCIDR is the range of addresses of Services of type LoadBalancer.
	LoadBalancerCIDR = netip.MustParsePrefix("10.97.0.0/24")
	// KubernetesServiceIP is the ClusterIP of Service default/kubernetes.
	KubernetesServiceIP = netip.MustParseAddr("10.96.0.1")
	// ClusterDNS is the address pods find in their resolv.conf.
	ClusterDNS = netip.MustParseAddr("10.96.0.10")
)

const (
	// APIServerURL is the API server's address inside a sandbox.
	APIServerURL = "https://10.244.0.1:6443"
	// ReleasesHost is the name of the file server that stands for the download
	// pages of releases: http://releases.sandbox/ serves the state directory's
	// releases/.
	ReleasesHost = "releases.sandbox"

	clusterDomain = "cluster.local"
	kubeletPort   = "10250"

	etcdURL             = "http://127.0.0.1:2379"
	etcdPeerURL         = "http://127.0.0.1:2380"
	controllerManagerAt = "127.0.0.1:10257"
	schedulerAt         = "127.0.0.1:10259"
)
