// Package presetsource reads the presets of a registration: those that steps name from one
// watch of the controller's namespace, and that of the registration itself from its ConfigMap.
package presetsource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

const (
	// keptFor is how long a preset that was read without a watch is used before it is read
	// again.
	keptFor = 30 * time.Second
	// retryAfter is the wait after a failed read: without it, each call of the controller
	// would wait for another read.
	retryAfter = 5 * time.Second
	// maxUnknown bounds how many names are kept of presets that were never there.
	maxUnknown = 1000
	// sectionWait bounds how long Section waits for the API server.
	sectionWait = time.Second
)

// reasonInvalid says on a ConfigMap that its preset is wrong. Steps that begin with the preset
// wait. Steps that have begun go on with the last good form.
const reasonInvalid = "StepPresetInvalid"

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// Events writes Events.
type Events interface {
	Warn(about *corev1.ObjectReference, reason, topic, message string)
}

// Options say which presets there are.
type Options struct {
	// Connect returns the client configuration. It makes no request.
	Connect func() (*rest.Config, error)
	// Namespace has the presets. Name is the one ConfigMap that is the preset of the
	// registration; where it is empty, steps name presets, which have steps.PresetLabel.
	Namespace, Name string
	// Check returns what is wrong with a preset that can be read.
	Check  func(*steps.Preset) error
	Events Events
	Logger hclog.Logger
}

// Source provides presets. It makes no request before Start, or before the first is asked for,
// and is safe for concurrent use.
type Source struct {
	opts    Options
	objects *kube.Objects
	// watched is nil where the registration has a preset.
	watched *kube.Summaries[content]
	now     func() time.Time

	mu    sync.Mutex
	known map[string]*known
}

// known is what is known of a preset; Source.mu guards seen and last.
type known struct {
	// turn is held while the ConfigMap is read without a watch, next is when that is due.
	turn chan struct{}
	next time.Time
	// seen is what was last seen.
	seen content
	// last is the preset as it could last be used: also if it was deleted, since what it locks
	// holds for the steps that wait for it.
	last *steps.Preset
}

// content is a preset, or what is wrong with it.
type content struct {
	preset *steps.Preset
	err    error
	gone   bool
}

// New returns a Source.
func New(opts Options) *Source {
	s := &Source{opts: opts, objects: kube.NewObjects(opts.Connect), now: time.Now, known: map[string]*known{}}
	if opts.Name != "" {
		return s
	}
	s.watched = kube.NewSummaries(opts.Connect, kube.SummariesOptions[content]{
		Resource: configMaps, Namespace: opts.Namespace, Selector: steps.PresetLabel + "=true",
		Summarize: func(object []byte) content {
			var configMap corev1.ConfigMap
			if err := json.Unmarshal(object, &configMap); err != nil {
				return content{err: err}
			}
			return s.contentOf(&configMap)
		},
		Changed: func(_, after *kube.Summary[content]) {
			if after != nil {
				s.saw(after.Name, after.Content, &after.ObjectMeta)
			}
		},
		WithoutWatch: "presets of steps are read every 30 seconds",
		Logger:       opts.Logger,
	})
	return s
}

// Start begins the watch before the first preset is asked for, so that what is wrong with a
// preset is said as it becomes so, and what one locks is known in case it is broken when a step
// comes to it. It returns when there is a watch, or none.
func (s *Source) Start(ctx context.Context) {
	if s.watched != nil {
		_, _ = s.watched.Await(ctx) // what fails here fails again as a preset is asked for
	}
}

// Close ends the watch.
func (s *Source) Close() {
	if s.watched != nil {
		s.watched.Close()
	}
}

// Preset returns a preset as it is now: as the watch shows it, or without a watch as it was
// within the last 30 seconds. While the API server cannot be asked, it is as it was last read.
func (s *Source) Preset(ctx context.Context, name string) (*steps.Preset, error) {
	if s.watched == nil {
		return s.read(ctx, s.opts.Name)
	}
	if watching, err := s.watched.Await(ctx); err != nil || !watching {
		return s.read(ctx, name)
	}
	found, err := s.watched.Get(ctx, s.opts.Namespace, name)
	switch {
	case apierrors.IsNotFound(err), err == nil && !isPreset(found.Labels):
		s.saw(name, s.notThere(name), nil)
	case err == nil:
		s.saw(name, found.Content, &found.ObjectMeta)
	} // else the watch was refused a moment ago
	return s.answer(s.of(name))
}

// Section returns what a preset gives steps of a kind: null if it is for another one. A preset
// that cannot be used now counts as it last could be. known is false if there is none.
func (s *Source) Section(name, kind string) (section json.RawMessage, known bool) {
	ctx, cancel := context.WithTimeout(context.Background(), sectionWait)
	defer cancel()
	preset, err := s.Preset(ctx, name)
	if err != nil {
		var unusable *steps.PresetError
		errors.As(err, &unusable)
		preset = unusable.Last
	}
	if preset == nil {
		return nil, false
	}
	return preset.Section(kind), true
}

// isPreset tells whether steps can name a ConfigMap with these labels.
func isPreset(labels map[string]string) bool { return labels[steps.PresetLabel] == "true" }

func (s *Source) notThere(name string) content {
	err := fmt.Errorf("there is no preset %s: want a ConfigMap %s/%s with the label %s: \"true\" and the preset under data[%q]", name, s.opts.Namespace, name, steps.PresetLabel, steps.PresetKey)
	if s.watched == nil {
		err = fmt.Errorf("preset ConfigMap %s/%s does not exist: create it, with the preset under data[%q], or correct --preset in the plugin's args", s.opts.Namespace, name, steps.PresetKey)
	}
	return content{err: err, gone: true}
}

// contentOf reads the preset in a ConfigMap. A panic, which in the watch would end the process
// and all its steps, makes it a preset that is wrong.
func (s *Source) contentOf(configMap *corev1.ConfigMap) (seen content) {
	where := fmt.Sprintf("preset ConfigMap %s/%s", configMap.Namespace, configMap.Name)
	defer func() {
		if cause := recover(); cause != nil {
			seen = content{err: fmt.Errorf("%s: %w", where, steps.PanicError(s.opts.Logger, "while a preset is read", cause))}
		}
	}()
	text, found := configMap.Data[steps.PresetKey]
	if !found {
		return content{err: fmt.Errorf("%s has no data[%q]: put the preset there", where, steps.PresetKey)}
	}
	preset, err := steps.ReadPreset([]byte(text))
	if err == nil {
		err = s.opts.Check(preset)
	}
	if err != nil {
		return content{err: fmt.Errorf("%s: data[%q]: %w", where, steps.PresetKey, err)}
	}
	about := reference(&configMap.ObjectMeta)
	preset.Report = func(err error) { s.warn(about, err) }
	return content{preset: preset}
}

// warn says on a ConfigMap what is wrong with its preset.
func (s *Source) warn(about *corev1.ObjectReference, err error) {
	s.opts.Events.Warn(about, reasonInvalid, about.ResourceVersion, err.Error()+"; steps that begin with it wait, and those that have begun go on with it as it was")
}

// of returns what is known of a preset.
func (s *Source) of(name string) *known {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.known[name]
	if k == nil {
		if len(s.known) >= maxUnknown { // Rollouts can name what is not there
			maps.DeleteFunc(s.known, func(_ string, k *known) bool { return k.last == nil })
		}
		k = &known{turn: make(chan struct{}, 1), seen: content{err: s.unread(name, errors.New("no answer from the API server yet"))}}
		s.known[name] = k
	}
	return k
}

func (s *Source) unread(name string, cause error) error {
	return fmt.Errorf("preset ConfigMap %s/%s cannot be read: %w", s.opts.Namespace, name, cause)
}

// saw keeps what was seen of a preset, and says on its ConfigMap what is wrong with it.
func (s *Source) saw(name string, seen content, configMap *metav1.ObjectMeta) {
	if seen.err != nil && configMap != nil {
		s.warn(reference(configMap), seen.err)
	}
	k := s.of(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.seen = seen; seen.preset != nil {
		k.last = seen.preset
	}
}

// answer returns a preset as it was last seen.
func (s *Source) answer(k *known) (*steps.Preset, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.seen.err != nil {
		return nil, &steps.PresetError{Cause: k.seen.err, Last: k.last, Gone: k.seen.gone}
	}
	return k.seen.preset, nil
}

// read returns a preset without a watch.
func (s *Source) read(ctx context.Context, name string) (*steps.Preset, error) {
	k := s.of(name)
	select {
	case k.turn <- struct{}{}:
		if !s.now().Before(k.next) {
			k.next = s.now().Add(s.readNow(ctx, name, k))
		}
		<-k.turn
	case <-ctx.Done(): // another call reads it
	}
	return s.answer(k)
}

// readNow reads a ConfigMap, and returns how long that holds.
func (s *Source) readNow(ctx context.Context, name string, k *known) time.Duration {
	var configMap corev1.ConfigMap
	err := s.objects.Get(ctx, configMaps, s.opts.Namespace, name, &configMap)
	if err == nil && (s.watched == nil || isPreset(configMap.Labels)) {
		s.saw(name, s.contentOf(&configMap), &configMap.ObjectMeta)
		return keptFor
	}
	if err == nil || apierrors.IsNotFound(err) {
		s.saw(name, s.notThere(name), nil)
		return retryAfter
	}
	if _, unusable := s.answer(k); unusable == nil {
		s.opts.Logger.Warn("a preset cannot be read, and goes on to serve as it was last read", "preset", name, "error", err)
		return retryAfter
	}
	if apierrors.IsForbidden(err) {
		err = fmt.Errorf("grant the controller's ServiceAccount that it may get ConfigMaps (deploy/rbac-step): %w", err)
	}
	s.saw(name, content{err: s.unread(name, err)}, nil)
	return retryAfter
}

func reference(configMap *metav1.ObjectMeta) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: "v1", Kind: "ConfigMap", Namespace: configMap.Namespace, Name: configMap.Name,
		UID: configMap.UID, ResourceVersion: configMap.ResourceVersion,
	}
}

var _ steps.PresetSource = (*Source)(nil)
