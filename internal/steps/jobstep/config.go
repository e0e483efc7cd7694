// Package jobstep is the kind "job" of canary steps: a step runs a Job in the Rollout's
// namespace, and succeeds or fails with it.
//
// The controller's ServiceAccount, under which the plugin runs, needs these permissions
// (deploy/rbac-step/job.yaml):
//
//	batch jobs           create, get     make the Job of a step, and ask how it goes
//	batch jobs           list            find Jobs that an earlier revision has left running
//	batch jobs           delete          cancel and abort a step
//	pods                 list            say what a Job waits for, and read outputs
//	pods/log             get             show the last lines of a log
//	events               list            say why a Job has no pod, such as a quota
//	apps replicasets     get             read the images of the stable version
//
// A Rollout's author gains nothing by the controller's permissions. A Rollout runs pods of
// any template in its namespace anyway, and the Job of a step runs in the same namespace,
// with the ServiceAccounts and Secrets of that namespace. Pod Security admission, quotas and
// admission policies apply to both alike. An admin who wants steps to run only certain Jobs
// gives the registration a preset that has the Job and locks "job".
package jobstep

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/strict"
)

// Name is the kind's name.
const Name = "job"

const (
	// defaultTTL is how long a finished Job stays, in seconds; minTTL is the least.
	defaultTTL = 3600
	minTTL     = 300
	// defaultLogLines and maxLogLines are numbers of log lines in a message.
	defaultLogLines = 10
	maxLogLines     = 50
)

// Config is the configuration of a step that runs a Job.
//
// Each container of the Job has these in its environment, unless its `env` says otherwise:
//
//	ROLLOUT_NAME, ROLLOUT_NAMESPACE
//	ROLLOUT_NEW_IMAGE, ROLLOUT_OLD_IMAGE            of the Rollout's first container; old is that of the stable version
//	ROLLOUT_NEW_HASH, ROLLOUT_OLD_HASH              the pod template hashes
//	ROLLOUT_STABLE_SERVICE, ROLLOUT_CANARY_SERVICE  the names of the two Services, empty where the Rollout names none
//	ROLLOUT_WEIGHT                                  the canary's weight, 0 where the Rollout has no trafficRouting
//	ROLLOUT_REVISION                                the Rollout's revision
//	ROLLOUT_STEP_ID, ROLLOUT_STEP_KEY               the key is the same for one attempt at the step, whatever runs twice
//
// A container of a Job that has completed hands outputs on in its termination message
// (`/dev/termination-log`), as a JSON object: `{"buildUrl": "https://..."}`. One may have
// 1 KiB, all of a step 2 KiB; larger ones are left out, with an Event `StepOutputDropped`.
//
// A Job that is there under the step's key is taken for its own: it is made once. A step whose
// Job is deleted by somebody else fails.
type Config struct {
	steps.Settings
	// Job is what runs. In its `containers` and `initContainers` the `image`, `command`,
	// `args` and the values of `env` are templates. A value that a Rollout's author chooses,
	// such as a label, belongs into `env` or an argument of its own, not into the text of a
	// shell script. Where it does not say otherwise, `restartPolicy` is `Never`,
	// `backoffLimit` 0 and `ttlSecondsAfterFinished` 3600, which has to be 300 or more.
	// `activeDeadlineSeconds` is a minute more than what is left of the step's timeout, or
	// less. A pause of the Rollout does not pause it. `selector` and `manualSelector` are not
	// to be set.
	//
	// Required.
	Job batchv1.JobSpec `json:"job"`
	// LogLines is how many of the last lines of a log are in the message of a step that has
	// failed or timed out, 50 at most; `0` for none. Everybody who may read the Rollout reads
	// them: nothing is taken out of them.
	//
	// Default: `10`.
	LogLines *int32 `json:"logLines,omitempty"`
}

// Options say how a kind works.
type Options struct {
	// Connect returns the configuration of the cluster's API server.
	Connect func() (*rest.Config, error)
	Logger  hclog.Logger
}

type kind struct {
	objects *kube.Objects
	logger  hclog.Logger
	now     func() time.Time
	// logTimeout bounds how long a log is read: the kubelet may be gone.
	logTimeout time.Duration
}

// New returns the kind. It makes no request before the first operation of a step.
func New(opts Options) steps.Kind {
	return &kind{objects: kube.NewObjects(opts.Connect), logger: opts.Logger, now: time.Now, logTimeout: logTimeout}
}

// Name is "job".
func (k *kind) Name() string { return Name }

// Parse reads a configuration.
func (k *kind) Parse(source steps.Source) (steps.Step, error) {
	var config Config
	if err := strict.Decode(source.Config, &config); err != nil {
		return nil, err
	}
	if err := config.check(); err != nil {
		return nil, err
	}
	texts, err := parseTexts(&config.Job)
	if err != nil {
		return nil, err
	}
	return &step{kind: k, config: config, texts: texts}, nil
}

// check returns what is wrong with a configuration. What it leaves to the API server shows
// only when the step runs.
func (c *Config) check() error {
	template := &c.Job.Template.Spec
	switch {
	case len(template.Containers) == 0:
		return errors.New("job.template.spec.containers: want one container or more")
	case template.RestartPolicy != "" && template.RestartPolicy != corev1.RestartPolicyNever && template.RestartPolicy != corev1.RestartPolicyOnFailure:
		return fmt.Errorf("job.template.spec.restartPolicy %q: want %s (the default) or %s", template.RestartPolicy, corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure)
	case c.Job.Selector != nil, c.Job.ManualSelector != nil:
		return errors.New("job.selector, job.manualSelector: leave them out: Kubernetes selects the pods of each Job by labels of its own")
	case c.Job.TTLSecondsAfterFinished != nil && *c.Job.TTLSecondsAfterFinished < minTTL:
		return fmt.Errorf("job.ttlSecondsAfterFinished %d: want %d or more: the step has to find the finished Job, also after a restart of the controller", *c.Job.TTLSecondsAfterFinished, minTTL)
	case c.Job.ActiveDeadlineSeconds != nil && *c.Job.ActiveDeadlineSeconds < 1:
		return fmt.Errorf("job.activeDeadlineSeconds %d: want 1 or more", *c.Job.ActiveDeadlineSeconds)
	case c.LogLines != nil && (*c.LogLines < 0 || *c.LogLines > maxLogLines):
		return fmt.Errorf("logLines %d: want 0 to %d", *c.LogLines, maxLogLines)
	case c.OnUnknown == steps.OnUnknownFail:
		return fmt.Errorf("onUnknown %s: leave it out: a Job is found again by its name, so it is always known whether it was started", c.OnUnknown)
	}
	return nil
}

func (c *Config) logLines() int {
	if c.LogLines == nil {
		return defaultLogLines
	}
	return int(*c.LogLines)
}
