package resourcestep

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/bound"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/cel"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/registration"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/strict"
)

// Name is the kind's name.
const Name = "resource"

const (
	maxOutputs = 16
	// maxDecoders bounds how many objects are evaluated at a time, each of which may take some 10
	// MiB.
	maxDecoders = 4
	// maxShown bounds what an error shows of a configuration, and maxMessage what a message shows of
	// the object, in bytes.
	maxShown   = 80
	maxMessage = 400
)

var outputPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,62}$`)

// Options say how a kind works.
type Options struct {
	// Connect returns the configuration of the cluster's API server.
	Connect func() (*rest.Config, error)
	Logger  hclog.Logger
	// Allowed are the kinds of objects that steps may create.
	Allowed []registration.GroupKind
}

type kind struct {
	allowed  []registration.GroupKind
	objects  *kube.Objects
	logger   hclog.Logger
	decoders chan struct{}

	mu sync.Mutex
	// served are the resources of kinds that the cluster has served.
	served map[schema.GroupVersionKind]resource
}

// resource is how the cluster serves a kind.
type resource struct {
	schema.GroupVersionResource
	namespaced bool
}

// New returns the kind. It makes no request before the first operation of a step.
func New(opts Options) steps.Kind {
	return &kind{
		allowed: opts.Allowed, objects: kube.NewObjects(opts.Connect), logger: opts.Logger,
		decoders: make(chan struct{}, maxDecoders), served: map[schema.GroupVersionKind]resource{},
	}
}

// Name is "resource".
func (k *kind) Name() string { return Name }

// Parse reads a configuration.
func (k *kind) Parse(source steps.Source) (steps.Step, error) {
	var c Config
	if err := strict.Decode(source.Config, &c); err != nil {
		return nil, err
	}
	s := &step{kind: k, needsStable: steps.NeedsStable(source.Config)}
	texts, err := cel.New(cel.Declarations{})
	if err != nil {
		return nil, err
	}
	if s.manifest, err = readManifest(texts, c.Manifest); err != nil {
		return nil, err
	}
	over, err := cel.New(cel.Declarations{Outputs: slices.Sorted(maps.Keys(c.Outputs)), Object: true})
	if err != nil {
		return nil, err
	}
	if c.SuccessCondition == "" {
		return nil, errors.New(`successCondition: want an expression such as object.status.phase == "Succeeded"`)
	}
	if s.success, err = over.Condition(c.SuccessCondition); err != nil {
		return nil, fmt.Errorf("successCondition: %w", err)
	}
	if c.FailureCondition != "" {
		if s.failure, err = over.Condition(c.FailureCondition); err != nil {
			return nil, fmt.Errorf("failureCondition: %w", err)
		}
	}
	s.successText, s.failureText = oneLine(c.SuccessCondition), oneLine(c.FailureCondition)
	if s.outputs, err = readOutputs(over, c.Outputs); err != nil {
		return nil, err
	}
	if c.Message != "" {
		if s.message, err = over.Text(c.Message); err != nil {
			return nil, fmt.Errorf("message: %w", err)
		}
	}
	return s, k.checkAllowed(s.manifest.kind.GroupKind())
}

func readOutputs(env *cel.Env, given map[string]string) ([]output, error) {
	if len(given) > maxOutputs {
		return nil, fmt.Errorf("outputs: %d: want %d at most", len(given), maxOutputs)
	}
	var outputs []output
	for _, name := range slices.Sorted(maps.Keys(given)) {
		path := strict.Join("outputs", name)
		if !outputPattern.MatchString(name) {
			return nil, fmt.Errorf("%s: want a name of a letter, then letters, digits and _", path)
		}
		value, err := env.Output(given[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		outputs = append(outputs, output{path, name, value})
	}
	return outputs, nil
}

// checkAllowed returns an error for a kind that certainly is not allowed. It is a steps.Error, as
// that of a host that is not allowed: the registration decides, not the step.
func (k *kind) checkAllowed(of schema.GroupKind) error {
	if slices.ContainsFunc(k.allowed, func(g registration.GroupKind) bool { return g.MayBe(of) }) {
		return nil
	}
	return k.notAllowed(of)
}

func (k *kind) notAllowed(of schema.GroupKind) error {
	word := strings.TrimSuffix(of.Kind+"."+of.Group, ".")
	if _, err := registration.ParseGroupKind(word); err != nil {
		return refused("manifest.kind: %s: steps create no such objects: who edits a Rollout would have all rights of the controller", word)
	}
	allowed := "none is"
	if len(k.allowed) > 0 {
		var all []string
		for _, g := range k.allowed {
			all = append(all, g.String())
		}
		allowed = "allowed are " + strings.Join(all, ", ")
	}
	return refused("manifest.kind: %s is not allowed (%s): an admin allows it with --allow-resource=%s in the args of the registration", of.Kind, allowed, word)
}

func refused(format string, args ...any) error {
	return &steps.Error{Final: true, Cause: fmt.Errorf(format, args...)}
}

func shorten(text string) string { return bound.Shorten(text, maxShown) }

// oneLine is a condition for people.
func oneLine(text string) string { return shorten(strings.Join(strings.Fields(text), " ")) }
