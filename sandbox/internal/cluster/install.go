package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/progress"
)

const (
	rolloutsNamespace = "argo-rollouts"
	rolloutsName      = "argo-rollouts"
	rolloutsConfigMap = "argo-rollouts-config"

	// rolloutsHealthPort is the container port "healthz" of install.yaml.
	rolloutsHealthPort = "8080"

	interceptorNamespace = "keda"
	interceptorName      = "keda-add-ons-http-interceptor"

	// deploymentTimeout is how long what is installed may take: the controller
	// downloads the plugin, starts it, and answers its probes.
	deploymentTimeout = 2 * time.Minute
)

// install applies Argo Rollouts and what the plugin's guide has a user apply,
// the plugin's configuration before the controller that reads it once.
func (d *daemon) install(ctx context.Context) error {
	d.events.status("applying Argo Rollouts and the plugin's manifests")
	objects, err := d.manifests(ctx)
	if err != nil {
		return err
	}
	sum, err := fileSHA256(d.layout.Plugin())
	if err != nil {
		return fmt.Errorf("plugin: %w", err)
	}
	config, err := registration(d.settings.Deploy, "http://"+ReleasesHost+"/"+PluginAsset, sum)
	if err != nil {
		return err
	}
	apply, err := newApplier(d.config)
	if err != nil {
		return err
	}
	if err := apply.apply(ctx, rolloutsNamespace, slices.Concat(objects, []*unstructured.Unstructured{namespace(rolloutsNamespace, nil)}, config)); err != nil {
		return err
	}
	d.said("Argo Rollouts, the HTTPScaledObject CRD and the plugin's RBAC are applied")
	if !d.settings.Interceptor {
		return nil
	}
	// After the definitions of what it watches.
	if objects, err = d.deployed(ctx, "interceptor"); err != nil {
		return err
	}
	// The manifests make no namespace, which is KEDA's as a rule. Here it takes
	// only pods that any cluster would.
	objects = append(objects, namespace(interceptorNamespace, map[string]any{"pod-security.kubernetes.io/enforce": "restricted"}))
	if err := apply.apply(ctx, interceptorNamespace, objects); err != nil {
		return err
	}
	d.said("the interceptor is applied")
	return nil
}

func namespace(name string, labels map[string]any) *unstructured.Unstructured {
	metadata := map[string]any{"name": name}
	if labels != nil {
		metadata["labels"] = labels
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}}
}

// deployed reads the manifests in a directory of deploy/.
func (d *daemon) deployed(ctx context.Context, name string) ([]*unstructured.Unstructured, error) {
	dir := filepath.Join(d.settings.Deploy, name)
	objects, err := readManifestDir(ctx, d.settings.Program, dir)
	if err != nil {
		return nil, err
	}
	if len(objects) == 0 {
		return nil, fmt.Errorf("no manifests in %s: pass the repository's deploy directory with --deploy", dir)
	}
	return objects, nil
}

// manifests reads everything that install applies, but for the plugin's
// ConfigMap: the empty one among Argo Rollouts' manifests is left out for it.
func (d *daemon) manifests(ctx context.Context) ([]*unstructured.Unstructured, error) {
	all, err := readManifestFile(filepath.Join(d.settings.Manifests, "install.yaml"))
	if err != nil {
		return nil, fmt.Errorf("manifests of Argo Rollouts: %w", err)
	}
	var objects []*unstructured.Unstructured
	for _, object := range all {
		if object.GetKind() != "ConfigMap" || object.GetName() != rolloutsConfigMap {
			objects = append(objects, object)
		}
	}
	for _, dir := range []string{"crds", "rbac"} {
		more, err := d.deployed(ctx, dir)
		if err != nil {
			return nil, err
		}
		objects = append(objects, more...)
	}
	if _, err := os.Stat(d.settings.CRDs); err == nil {
		more, err := readManifestDir(ctx, d.settings.Program, d.settings.CRDs)
		if err != nil {
			return nil, err
		}
		objects = append(objects, more...)
	}
	return objects, nil
}

// registration is the template in deploy/plugin with a plugin's location and
// SHA-256 filled in, as hack/release-manifests.sh does it.
func registration(deploy, location, sha256 string) ([]*unstructured.Unstructured, error) {
	path := filepath.Join(deploy, "plugin", rolloutsConfigMap+".yaml")
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the plugin's registration: %w: pass the repository's deploy directory with --deploy", err)
	}
	// What comes first keeps the template from being applied as it is.
	_, text, found := strings.Cut(string(content), "\ntemplate: ")
	_, text, ended := strings.Cut(text, "\n")
	if !found || !ended || !strings.Contains(text, "@LOCATION@") || !strings.Contains(text, "@SHA256@") {
		return nil, fmt.Errorf("%s: expected a template: a line \"template: …\", and after it @LOCATION@ and @SHA256@", path)
	}
	return decodeManifests(path, []byte(strings.NewReplacer("@LOCATION@", location, "@SHA256@", sha256).Replace(text)))
}

// awaitRollouts waits until the controller works. Its Deployment is available
// as soon as its process runs, having no readiness probe; its health endpoint
// answers only after it has downloaded every plugin.
func (d *daemon) awaitRollouts(ctx context.Context) error {
	return d.awaitDeployment(ctx, rolloutsNamespace, rolloutsName, func(ctx context.Context, pod corev1.Pod) error {
		return newPlainProbe().get("http://" + net.JoinHostPort(pod.Status.PodIP, rolloutsHealthPort) + "/healthz")(ctx)
	})
}

// awaitInterceptor waits until the interceptor serves: its readiness probe says
// so.
func (d *daemon) awaitInterceptor(ctx context.Context) error {
	return d.awaitDeployment(ctx, interceptorNamespace, interceptorName, func(context.Context, corev1.Pod) error { return nil })
}

// awaitDeployment waits until a Deployment is available and check returns nil
// for one of its ready pods.
func (d *daemon) awaitDeployment(ctx context.Context, namespace, name string, check func(context.Context, corev1.Pod) error) error {
	start := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, deploymentTimeout, fmt.Errorf("not available after %s", progress.Seconds(deploymentTimeout)))
	defer cancel()
	err := poll(ctx, 100*time.Millisecond, func(ctx context.Context) error {
		d.events.status("waiting for Deployment %s/%s, %s", namespace, name, progress.Seconds(time.Since(start)))
		return d.available(ctx, namespace, name, check)
	})
	if err != nil {
		return fmt.Errorf("waiting for Deployment %s/%s: %w\n%s", namespace, name, err, d.describePods(namespace))
	}
	return nil
}

func (d *daemon) available(ctx context.Context, namespace, name string, check func(context.Context, corev1.Pod) error) error {
	deployment, err := d.client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	available := slices.ContainsFunc(deployment.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentAvailable && c.Status == corev1.ConditionTrue
	})
	if !available {
		return errors.New("too few replicas are ready yet")
	}
	pods, err := d.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{
		LabelSelector: metav1.FormatLabelSelector(deployment.Spec.Selector),
	})
	if err != nil {
		return err
	}
	for _, pod := range pods.Items {
		if podReady(&pod) {
			return check(ctx, pod)
		}
	}
	return errors.New("no replica is ready any more")
}

// describePods says what is known of a namespace's pods: their state,
// warnings about them, and the end of their logs.
func (d *daemon) describePods(namespace string) string {
	// The caller's context has ended.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	pods, err := d.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "    (its pods cannot be listed: " + err.Error() + ")"
	}
	if len(pods.Items) == 0 {
		return "    it has no pods\n" + logTail(d.layout.Log(ControllerManager))
	}
	var text strings.Builder
	for _, pod := range pods.Items {
		state, why := podState(&pod)
		_, _ = fmt.Fprintf(&text, "    pod %s: %s %s\n", pod.Name, state, why)
		lines := int64(tailLines)
		log, err := d.client.CoreV1().Pods(namespace).GetLogs(pod.Name, &corev1.PodLogOptions{TailLines: &lines}).DoRaw(ctx)
		if err == nil && len(log) > 0 {
			_, _ = fmt.Fprintf(&text, "    %s\n", strings.ReplaceAll(strings.TrimSpace(string(log)), "\n", "\n    "))
		}
	}
	list, err := d.client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "type=" + corev1.EventTypeWarning})
	if err == nil {
		for _, event := range list.Items {
			_, _ = fmt.Fprintf(&text, "    event on %s %s: %s: %s\n", event.InvolvedObject.Kind, event.InvolvedObject.Name, event.Reason, event.Message)
		}
	}
	return strings.TrimRight(text.String(), "\n")
}
