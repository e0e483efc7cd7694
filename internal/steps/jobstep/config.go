// Package jobstep is the kind "job" of canary steps: a step runs a Job in the Rollout's
// namespace, and succeeds or fails with it.
//
// The controller's ServiceAccount, under which the plugin runs, needs these permissions
// (deploy/rbac-step/job.yaml):
//
//	batch jobs           create, get     create the Job of a step, and ask how it goes
//	batch jobs           list            find Jobs that an earlier revision has left running
//	batch jobs           delete          cancel and abort a step
//	batch cronjobs       get             run the Job of a CronJob (from: cronjob/<name>)
//	pods                 list            say what a Job waits for, and read outputs
//	pods/log             get             show the last lines of a log
//	events               list            say why a Job has no pod, such as a quota
//	apps replicasets     get             read the images of the stable version
//
// A Rollout's author gains nothing by the controller's permissions. A Rollout runs pods of
// any template in its namespace anyway, and the Job of a step runs in the same namespace,
// with the ServiceAccounts and Secrets of that namespace; CronJobs are read in that namespace
// alone. Pod Security admission, quotas and admission policies apply to both alike. An admin
// who wants steps to run only certain Jobs gives them a preset that has the Job and locks
// "job".
package jobstep

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/cel"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/stepobject"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/strict"
)

// Name is the kind's name.
const Name = "job"

const (
	// defaultTTL is how long a finished Job stays, in seconds; minTTL is the least: the step
	// has to find it, also after a restart of the controller.
	defaultTTL = 3600
	minTTL     = 300
	// defaultLogLines and maxLogLines are numbers of log lines in a message.
	defaultLogLines = 10
	maxLogLines     = 50
	// cronJobPrefix is how From begins.
	cronJobPrefix = "cronjob/"
)

// Config is what a step's Job is. Besides the keys below it has those of a
// [JobSpec](https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/job-v1/#JobSpec).
// In its `containers` and `initContainers` the `image`, `command`, `args` and the values of
// `env` may have CEL between `{{` and `}}`. A value that others choose, such as a label, an
// output or `abort.reason`, belongs into `env` or an argument of its own, not into the text of a
// shell script. Kubernetes replaces `$(NAME)` in the text, not in the values.
//
// By default `restartPolicy` is `Never`, `backoffLimit` 0 and `ttlSecondsAfterFinished` 3600;
// less than 300 counts as 300. `activeDeadlineSeconds` is a minute more than what is left of the
// step's timeout; a lower value counts. A pause of the Rollout does not pause the Job.
// `selector` and `manualSelector` are not allowed.
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
// A container of a completed Job hands outputs on in its termination message
// (`/dev/termination-log`), as a JSON object: `{"buildUrl": "https://..."}`. An output may have
// 1 KiB, all outputs of a step 2 KiB. The plugin leaves out larger outputs, with an Event
// `StepOutputDropped`.
//
// A repeated start creates no second Job: the step goes on with the Job that has its key. While
// a quota of the namespace leaves no room for the Job or its pods, the step waits. If somebody
// else deletes the Job, the step fails.
type Config struct {
	// From is a CronJob of the Rollout's namespace, as in `cronjob/e2e`, whose Job the step
	// runs. The keys beside it change its `jobTemplate.spec` by a strategic merge patch, as in
	// Kustomize, which merges containers and variables by name. Texts in the CronJob have no
	// CEL. The step waits for a CronJob that does not exist.
	From string `json:"from,omitempty"`
	// LogLines is how many of the last lines of a log are in the message of a step that has
	// failed or timed out, 50 at most; `0` for none. Everybody who may read the Rollout reads
	// these lines: the plugin removes no Secrets from them.
	//
	// Default: `10`.
	LogLines *int32 `json:"logLines,omitempty"`
	// OnAbort is a Job that undoes what the first Job has done, such as a migration, when its
	// canary is aborted after the step has succeeded. It does not follow a Job that has failed,
	// or that was cancelled while it ran. Its name is that of the first Job with `-undo`.
	OnAbort *OnAbort `json:"onAbort,omitempty"`

	batchv1.JobSpec `json:",inline"`
}

// OnAbort is a Job like that of the step, with the same defaults and environment. It has the
// step's timeout, and its `activeDeadlineSeconds` is a minute more. The plugin creates it once,
// and again if somebody deletes it while it runs. When it has completed, the plugin deletes the
// first Job. When it fails, an Event `StepLeftBehind` has the last lines of its log. Until it
// has ended, the step of a later canary waits. Its texts also know [`abort.reason`](#kind-http),
// why the canary was aborted.
type OnAbort struct {
	// From is a CronJob of the Rollout's namespace, as that of the step.
	From string `json:"from,omitempty"`

	batchv1.JobSpec `json:",inline"`
}

// Options say how a kind works.
type Options struct {
	// Connect returns the configuration of the cluster's API server.
	Connect func() (*rest.Config, error)
	Logger  hclog.Logger
}

type kind struct {
	jobs   stepobject.Store
	logger hclog.Logger
	now    func() time.Time
	// logTimeout bounds how long a log is read: the kubelet may be gone.
	logTimeout time.Duration
}

// New returns the kind. It makes no request before the first operation of a step.
func New(opts Options) steps.Kind {
	store := stepobject.Store{
		Objects: kube.NewObjects(opts.Connect), Resource: jobs, Kind: "Job",
		Grants: "deploy/rbac-step/job.yaml has what the controller's ServiceAccount needs",
	}
	return &kind{jobs: store, logger: opts.Logger, now: time.Now, logTimeout: logTimeout}
}

// Name is "job".
func (k *kind) Name() string { return Name }

// Parse reads a configuration.
func (k *kind) Parse(from steps.Source) (steps.Step, error) {
	s := &step{kind: k, settings: from.Settings}
	if err := strict.Decode(from.Config, &s.config); err != nil {
		return nil, err
	}
	if err := s.config.check(); err != nil {
		return nil, err
	}
	var keys struct {
		OnAbort json.RawMessage `json:"onAbort"`
	}
	if err := json.Unmarshal(from.Config, &keys); err != nil {
		return nil, err
	}
	env, err := cel.New(cel.Declarations{})
	if err != nil {
		return nil, err
	}
	if s.main, err = newSource(env, from.Config); err != nil {
		return nil, err
	}
	if s.config.OnAbort != nil {
		if s.onAbort, err = newSource(env.WithAbort(), keys.OnAbort); err != nil {
			err = fmt.Errorf("onAbort.%w", err)
		}
	}
	return s, err
}

// check returns what is wrong with a configuration. What it leaves to the API server shows
// only when the step runs.
func (c *Config) check() error {
	if err := checkJob(c.From, &c.JobSpec); err != nil {
		return err
	}
	if c.OnAbort != nil {
		if err := checkJob(c.OnAbort.From, &c.OnAbort.JobSpec); err != nil {
			return fmt.Errorf("onAbort.%w", err)
		}
	}
	if c.LogLines != nil && (*c.LogLines < 0 || *c.LogLines > maxLogLines) {
		return fmt.Errorf("logLines: want 0 to %d, not %d", maxLogLines, *c.LogLines)
	}
	return nil
}

// checkJob returns what is wrong with one Job of a configuration.
func checkJob(from string, spec *batchv1.JobSpec) error {
	pod := &spec.Template.Spec
	cronJob, isCronJob := strings.CutPrefix(from, cronJobPrefix)
	switch {
	case from == "" && len(pod.Containers) == 0:
		return errors.New("template.spec.containers: want one container or more (or from: cronjob/<name>)")
	case from != "" && (!isCronJob || len(validation.IsDNS1123Subdomain(cronJob)) > 0):
		return fmt.Errorf("from: want a CronJob of the Rollout's namespace, such as cronjob/e2e, not %q", from)
	case from != "" && slices.ContainsFunc(slices.Concat(pod.InitContainers, pod.Containers), func(c corev1.Container) bool { return c.Name == "" }):
		return errors.New("template.spec.containers: with from, each needs the name of the CronJob's container that it changes, or one of its own")
	case pod.RestartPolicy != "" && pod.RestartPolicy != corev1.RestartPolicyNever && pod.RestartPolicy != corev1.RestartPolicyOnFailure:
		return fmt.Errorf("template.spec.restartPolicy: want Never (the default) or OnFailure, not %q", pod.RestartPolicy)
	case spec.Selector != nil:
		return errors.New("selector: leave it out: Kubernetes selects the pods of each Job by labels of its own")
	case spec.ManualSelector != nil:
		return errors.New("manualSelector: leave it out: Kubernetes selects the pods of each Job by labels of its own")
	case spec.ActiveDeadlineSeconds != nil && *spec.ActiveDeadlineSeconds < 1:
		return fmt.Errorf("activeDeadlineSeconds: want 1 or more, not %d", *spec.ActiveDeadlineSeconds)
	}
	return nil
}
