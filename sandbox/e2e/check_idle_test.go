package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/checktest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// The check finds every fault of a set-up without a canary under way. The faults are
// made one after the other in one namespace.
func TestCheckIdle(t *testing.T) {
	t.Parallel()
	outer := e2etest.NewNamespace(t)
	checktest.DeploySample(t, outer)
	args := []string{checktest.Sample, "-n", outer.Name}
	checktest.AwaitHealthy(t, args...)

	directory := checktest.SampleDirectory(t)
	read := func(file string) string {
		content, err := os.ReadFile(filepath.Join(directory, file))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	const (
		sample = checktest.Sample
		httpso = "HTTPScaledObject " + sample
		so     = "ScaledObject " + sample
	)
	text := func(s string) *string { return &s }
	for _, build := range []func(n *e2etest.Namespace) checktest.Fault{
		func(n *e2etest.Namespace) checktest.Fault {
			return checktest.Fault{
				Name: "HTTPScaledObject missing",
				Make: func() { n.Kubectl("delete", "httpso", sample, "--ignore-not-found") },
				Undo: func() { n.Apply(read("../canary-httpscaledobject/httpscaledobject.yaml")) },
				Want: []checktest.Finding{{Check: "httpscaledobject-exists", Status: checktest.Failure, Object: httpso, Message: "does not exist", Remedy: "describe scaledobject rollouts-demo"}},
			}
		},
		func(n *e2etest.Namespace) checktest.Fault { return missingService(n, sample+"-canary", read) },
		func(n *e2etest.Namespace) checktest.Fault { return missingService(n, sample+"-stable", read) },
		func(n *e2etest.Namespace) checktest.Fault {
			return checktest.Fault{
				Name: "Services equal",
				Make: func() { n.PatchRollout(sample, canaryPatch(`"canaryService":"rollouts-demo-stable"`)) },
				Undo: func() { n.PatchRollout(sample, canaryPatch(`"canaryService":"rollouts-demo-canary"`)) },
				Want: []checktest.Finding{{Check: "rollout-health", Status: checktest.Failure, Object: "Rollout " + sample, Message: "same service", Remedy: "get rollout"}},
				Also: []string{"annotation"},
			}
		},
		func(n *e2etest.Namespace) checktest.Fault {
			return targetFault(n, "target is the canary Service", "service", `"rollouts-demo-canary"`, `"rollouts-demo-stable"`, `is "rollouts-demo-canary", want the stable Service`)
		},
		func(n *e2etest.Namespace) checktest.Fault {
			return targetFault(n, "target is another Service", "service", `"other"`, `"rollouts-demo-stable"`, `want the stable Service "rollouts-demo-stable"`)
		},
		func(n *e2etest.Namespace) checktest.Fault {
			return targetFault(n, "target port that no Service has", "port", "81", "80", "asks for port 81, which Service rollouts-demo-stable does not have")
		},
		func(n *e2etest.Namespace) checktest.Fault {
			return annotationFault(n, "malformed annotation", checktest.Failure, "cannot be read",
				map[string]*string{e2etest.SplitAnnotation: text("{"), e2etest.OwnerAnnotation: text(sample)})
		},
		func(n *e2etest.Namespace) checktest.Fault {
			return annotationFault(n, "split that the status does not say", checktest.Failure, "carries rollouts-demo-stable=50,rollouts-demo-canary=50, the Rollout's status says none",
				map[string]*string{e2etest.SplitAnnotation: text(checktest.SampleSplit(50).Text), e2etest.OwnerAnnotation: text(sample)})
		},
		func(n *e2etest.Namespace) checktest.Fault {
			return annotationFault(n, "split on Services of nobody", checktest.Failure, "carries shop=100",
				map[string]*string{e2etest.SplitAnnotation: text("- service: shop\n  weight: 100\n"), e2etest.OwnerAnnotation: text(sample)})
		},
		func(n *e2etest.Namespace) checktest.Fault {
			return annotationFault(n, "split of a Rollout that is gone", checktest.Failure, "carries the split of Rollout gone, which does not exist, or does not name it",
				map[string]*string{e2etest.SplitAnnotation: text(checktest.SampleSplit(20).Text), e2etest.OwnerAnnotation: text("gone")})
		},
		func(n *e2etest.Namespace) checktest.Fault {
			return pluginFault(n, "unknown key", `"httpScaledObjectNmae":"rollouts-demo","httpScaledObjectName":null`, `"httpScaledObjectNmae":null,"httpScaledObjectName":"rollouts-demo"`, `did you mean "httpScaledObjectName"?`)
		},
		func(n *e2etest.Namespace) checktest.Fault {
			return pluginFault(n, "same name twice", `"httpScaledObjects":[{"name":"a"},{"name":"a"}],"httpScaledObjectName":null`, `"httpScaledObjects":null,"httpScaledObjectName":"rollouts-demo"`, `"a" is listed twice`)
		},
		func(n *e2etest.Namespace) checktest.Fault {
			plugins := func(text string) string { return canaryPatch(`"trafficRouting":{"plugins":{` + text + `}}`) }
			return checktest.Fault{
				Name: "plugin's name mistyped in the Rollout",
				Make: func() {
					n.PatchRollout(sample, plugins(`"kedify/http":null,"kedify/htpp":{"httpScaledObjectName":"rollouts-demo"}`))
				},
				Undo: func() {
					n.PatchRollout(sample, plugins(`"kedify/htpp":null,"kedify/http":{"httpScaledObjectName":"rollouts-demo"}`))
				},
				Want: []checktest.Finding{{Check: "rollout-config", Status: checktest.Failure, Object: "Rollout " + sample, Message: `but "kedify/htpp"`, Remedy: `plugins["kedify/http"]`}},
				Also: []string{"rollout-health"},
			}
		},
		func(n *e2etest.Namespace) checktest.Fault {
			return scaledObjectFault(n, directory, "minReplicaCount 0", `"minReplicaCount":0`, "scaledobject-min-replicas", "minReplicaCount is 0")
		},
		func(n *e2etest.Namespace) checktest.Fault {
			return checktest.Fault{
				Name: "Service selects other pods",
				Make: func() {
					n.Kubectl("patch", "service", sample+"-stable", "--type=merge", `-p={"spec":{"selector":{"app":"shop"}}}`)
				},
				Undo: func() {
					n.Kubectl("patch", "service", sample+"-stable", "--type=merge", `-p={"spec":{"selector":{"app":"rollouts-demo"}}}`)
					n.Reconcile(sample) // see missingService
				},
				Want: []checktest.Finding{
					{Check: "service-selectors", Status: checktest.Failure, Object: "Service " + sample + "-stable", Message: "app=shop", Remedy: "spec.selector"},
					{Check: "backends-ready", Status: checktest.Failure, Object: "Service " + sample + "-stable", Message: "no ready endpoint"},
				},
				Also: []string{"rollout-health"},
			}
		},
	} {
		passed := t.Run(build(outer).Name, func(t *testing.T) {
			build(outer.With(t)).Find(t, args...)
		})
		if !passed {
			t.Fatal("the faults that follow are not made: the one before may still be there")
		}
	}
	if outer.Split(sample) != e2etest.NoSplit {
		t.Errorf("%s carries %s in the end", so, outer.Split(sample))
	}
}

func canaryPatch(fields string) string {
	return fmt.Sprintf(`{"spec":{"strategy":{"canary":{%s}}}}`, fields)
}

func missingService(n *e2etest.Namespace, name string, read func(string) string) checktest.Fault {
	return checktest.Fault{
		Name: name + " missing",
		Make: func() { n.Kubectl("delete", "service", name, "--ignore-not-found") },
		Undo: func() {
			n.Apply(read("../canary/services.yaml"))
			// Argo Rollouts reconciles a Rollout with an invalid spec again only
			// when the Rollout changes.
			n.Reconcile(checktest.Sample)
		},
		Want: []checktest.Finding{{Check: "services-exist", Status: checktest.Failure, Object: "Service " + name, Message: "does not exist", Remedy: "create it"}},
		Also: []string{"rollout-health"},
	}
}

func targetFault(n *e2etest.Namespace, name, field, bad, good, message string) checktest.Fault {
	patch := func(value string) {
		n.Kubectl("patch", "httpso", checktest.Sample, "--type=merge", fmt.Sprintf(`-p={"spec":{"scaleTargetRef":{%q:%s}}}`, field, value))
	}
	return checktest.Fault{
		Name: name,
		Make: func() { patch(bad) },
		Undo: func() { patch(good) },
		Want: []checktest.Finding{{Check: "target-service", Status: checktest.Failure, Object: "HTTPScaledObject " + checktest.Sample, Message: message, Remedy: "edit httpscaledobject"}},
	}
}

// annotationFault sets annotations of the split; its Undo removes them.
func annotationFault(n *e2etest.Namespace, name, status, message string, annotations map[string]*string) checktest.Fault {
	return checktest.Fault{
		Name: name,
		Make: func() { n.Annotate(checktest.Sample, annotations) },
		Undo: func() {
			n.Annotate(checktest.Sample, map[string]*string{e2etest.SplitAnnotation: nil, e2etest.OwnerAnnotation: nil})
		},
		Want: []checktest.Finding{{Check: "annotation", Status: status, Object: "HTTPScaledObject " + checktest.Sample, Message: message}},
	}
}

func pluginFault(n *e2etest.Namespace, name, bad, good, message string) checktest.Fault {
	patch := func(config string) {
		n.PatchRollout(checktest.Sample, canaryPatch(`"trafficRouting":{"plugins":{"kedify/http":{`+config+`}}}`))
	}
	return checktest.Fault{
		Name: "configuration: " + name,
		Make: func() { patch(bad) },
		Undo: func() { patch(good) },
		Want: []checktest.Finding{{Check: "rollout-config", Status: checktest.Failure, Object: "Rollout " + checktest.Sample, Message: message, Remedy: "edit rollout"}},
		Also: []string{"rollout-health"},
	}
}

func scaledObjectFault(n *e2etest.Namespace, directory, name, patch, check, message string) checktest.Fault {
	return checktest.Fault{
		Name: name,
		Make: func() {
			n.Kubectl("patch", "scaledobject", checktest.Sample, "--type=merge", `-p={"spec":{`+patch+`}}`)
		},
		Undo: func() { n.Kubectl("apply", "-k", directory) },
		Want: []checktest.Finding{{Check: check, Status: checktest.Warning, Object: "ScaledObject " + checktest.Sample, Message: message, Remedy: "edit scaledobject"}},
	}
}
