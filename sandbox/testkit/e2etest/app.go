package e2etest

import (
	"bytes"
	"strings"
	"text/template"
)

// App describes a small application with a canary: a Rollout, its Services
// <name>-stable and <name>-canary, and its HTTPScaledObjects. The zero value
// of a field means its default.
type App struct {
	// Name of the Rollout and, by default, of its container and its HTTPScaledObject;
	// "app".
	Name string
	// Container is the name of the container; Name.
	Container string
	// Labels is YAML of labels of the Rollout; none.
	Labels string
	// Image is what the container runs; argoproj/rollouts-demo:blue.
	Image string
	// Replicas of the Rollout; 1.
	Replicas int
	// HTTPScaledObjects the Rollout names; one with the Rollout's name. Two or
	// more are named under httpScaledObjects.
	HTTPScaledObjects []string
	// PluginName is the name that the plugin is registered with; kedify/http.
	PluginName string
	// Plugin is the YAML under plugins[PluginName], in place of naming
	// HTTPScaledObjects.
	Plugin string
	// Steps is the YAML list under spec.strategy.canary.steps; none.
	Steps string
	// Canary is further YAML under spec.strategy.canary.
	Canary string
	// TrafficRouting is further YAML under trafficRouting.
	TrafficRouting string
	// Spec is further YAML under spec of the Rollout.
	Spec string
	// NoServices leaves stableService and canaryService out of the strategy,
	// for pingPong.
	NoServices bool
	// NoTraffic leaves traffic routing out of the strategy as well.
	NoTraffic bool
}

func (a App) complete() App {
	if a.Name == "" {
		a.Name = "app"
	}
	if a.Container == "" {
		a.Container = a.Name
	}
	if a.Image == "" {
		a.Image = Image("blue")
	}
	if a.PluginName == "" {
		a.PluginName = "kedify/http"
	}
	if a.Replicas == 0 {
		a.Replicas = 1
	}
	if a.HTTPScaledObjects == nil {
		a.HTTPScaledObjects = []string{a.Name}
	}
	if a.Plugin == "" {
		if len(a.HTTPScaledObjects) == 1 {
			a.Plugin = "httpScaledObjectName: " + a.HTTPScaledObjects[0]
		} else {
			a.Plugin = "httpScaledObjects:"
			for _, name := range a.HTTPScaledObjects {
				a.Plugin += "\n- name: " + name
			}
		}
	}
	return a
}

// Image returns the name of a demo image, as in Image("blue").
func Image(colour string) string { return "argoproj/rollouts-demo:" + colour }

// Rollout returns the manifest of the Rollout alone.
func (a App) Rollout() string { return render(rolloutTemplate, a.complete()) }

// Services returns the manifests of the two Services.
func (a App) Services() string {
	a = a.complete()
	return Service(a.Name+"-stable", a.Name) + Service(a.Name+"-canary", a.Name)
}

// Manifest returns everything: the Rollout, the Services, the
// HTTPScaledObjects.
func (a App) Manifest() string {
	a = a.complete()
	text := a.Services()
	for _, name := range a.HTTPScaledObjects {
		text += HTTPScaledObject(name, a.Name)
	}
	return text + a.Rollout()
}

// Service returns the manifest of a Service on the pods of an App.
func Service(name, app string) string {
	return render(serviceTemplate, map[string]string{"Name": name, "App": app})
}

// HTTPScaledObject returns the manifest of an HTTPScaledObject whose requests go to
// the stable Service of an App. It has labels, other annotations and several fields
// of its spec that nothing is to change.
func HTTPScaledObject(name, app string) string {
	return render(httpScaledObjectTemplate, map[string]string{"Name": name, "App": app})
}

func render(t *template.Template, data any) string {
	var text bytes.Buffer
	if err := t.Execute(&text, data); err != nil {
		panic(err) // the templates are constants, and write to memory
	}
	return text.String()
}

func parse(name, text string) *template.Template {
	return template.Must(template.New(name).Funcs(template.FuncMap{
		"indent": func(spaces int, text string) string {
			if text = Indent(spaces, text); text == "" {
				return ""
			}
			return "\n" + text
		},
	}).Parse(text))
}

// Indent moves lines to the right, for YAML under a key. Empty lines around them go.
func Indent(spaces int, text string) string {
	text = strings.Trim(text, "\n")
	if text == "" {
		return ""
	}
	margin := strings.Repeat(" ", spaces)
	return margin + strings.ReplaceAll(text, "\n", "\n"+margin)
}

var rolloutTemplate = parse("rollout", `---
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata:
  name: {{.Name}}
{{- if .Labels}}
  labels:
{{- indent 4 .Labels}}
{{- end}}
spec:
  replicas: {{.Replicas}}
  selector:
    matchLabels:
      app: {{.Name}}
  template:
    metadata:
      labels:
        app: {{.Name}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: {{.Container}}
          image: {{.Image}}
          ports:
            - containerPort: 8080
          readinessProbe:
            httpGet:
              path: /color
              port: 8080
            periodSeconds: 1
  strategy:
    canary:
{{- if not (or .NoServices .NoTraffic)}}
      stableService: {{.Name}}-stable
      canaryService: {{.Name}}-canary
{{- end}}
{{- indent 6 .Canary}}
{{- if not .NoTraffic}}
      trafficRouting:
{{- indent 8 .TrafficRouting}}
        plugins:
          {{.PluginName}}:
{{- indent 12 .Plugin}}
{{- end}}
{{- if .Steps}}
      steps:
{{- indent 8 .Steps}}
{{- end}}
{{- indent 2 .Spec}}
`)

var serviceTemplate = parse("service", `---
apiVersion: v1
kind: Service
metadata:
  name: {{.Name}}
spec:
  ports:
    - port: 80
      targetPort: 8080
  selector:
    app: {{.App}}
`)

var httpScaledObjectTemplate = parse("httpscaledobject", `---
apiVersion: http.keda.sh/v1alpha1
kind: HTTPScaledObject
metadata:
  name: {{.Name}}
  labels:
    app: {{.App}}
  annotations:
    httpscaledobject.keda.sh/skip-scaledobject-creation: "true"
    example.com/note: "not the plugin's"
spec:
  hosts:
    - {{.Name}}.example.com
  pathPrefixes:
    - /
  scaleTargetRef:
    apiVersion: argoproj.io/v1alpha1
    kind: Rollout
    name: {{.App}}
    service: {{.App}}-stable
    port: 80
  replicas:
    min: 1
    max: 10
`)
