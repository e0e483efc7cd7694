// Command cluster is every cluster component of the sandbox in one binary:
// they share most of their packages, and linking them once is what keeps the
// cold build short. The first argument names the component; when the binary
// is called by a component's name (a symlink), that name does.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	// Authentication and logging plugins the upstream mains link, too.
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

// components maps a name to its main; each gets os.Args with the component's
// name as argument zero and returns the exit code.
var components = map[string]func() int{
	"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
	"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) },
	"kube-scheduler":          func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
	"kubectl":                 func() int { return cli.Run(kubectl.NewDefaultKubectlCommand()) },
}

func main() {
	name := filepath.Base(os.Args[0])
	if components[name] == nil && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		name = os.Args[0]
	}
	main, ok := components[name]
	if !ok {
		known := make([]string, 0, len(components))
		for n := range components {
			known = append(known, n)
		}
		slices.Sort(known)
		fmt.Fprintf(os.Stderr, "cluster: no component %q; known: %s\n", name, strings.Join(known, ", "))
		os.Exit(2)
	}
	os.Exit(main())
}
