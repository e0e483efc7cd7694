package demo

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// shopCanary is a Rollout of the demo of steps with a canary at a step.
func shopCanary(t *testing.T, name string, step int32, change ...func(*v1alpha1.Rollout)) *v1alpha1.Rollout {
	t.Helper()
	file := strings.ReplaceAll(name, checkoutEU, "eu/checkout") + ".yaml"
	text, err := os.ReadFile("../../manifests/demo-steps/" + file)
	if err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(string(text), "\n---\n")
	ro := &v1alpha1.Rollout{}
	if err := yaml.UnmarshalStrict([]byte(documents[len(documents)-1]), ro); err != nil {
		t.Fatal(err)
	}
	ro.Generation = 2
	ro.Spec.Template.Spec.Containers[0].Image = stepsImage
	ro.Status = v1alpha1.RolloutStatus{
		ObservedGeneration: "2", Phase: v1alpha1.RolloutPhaseProgressing, StableRS: "old", CurrentPodHash: "new",
		CurrentStepIndex: &step, Replicas: 2, ReadyReplicas: 2, UpdatedReplicas: 1,
	}
	for _, change := range change {
		change(ro)
	}
	return ro
}

// says adds what a step says of itself.
func says(index int32, phase v1alpha1.StepPluginPhase, message string) func(*v1alpha1.Rollout) {
	return func(ro *v1alpha1.Rollout) {
		ro.Status.Canary.StepPluginStatuses = append(ro.Status.Canary.StepPluginStatuses, v1alpha1.StepPluginStatus{
			Index: index, Operation: v1alpha1.StepPluginOperationRun, Phase: phase, Message: message,
		})
	}
}

func backAtOldVersion(ro *v1alpha1.Rollout) {
	ro.Status.Abort, ro.Status.Phase, ro.Status.UpdatedReplicas = true, v1alpha1.RolloutPhaseDegraded, 0
}

// stepsStory is what is seen when all is as claimed. Each state comes a second after the one
// before.
func stepsStory(t *testing.T) story {
	t.Helper()
	s := story{rollouts: map[string][]stepsSeen{}}
	now := start
	add := func(name string, step int32, change ...func(*v1alpha1.Rollout)) {
		now = now.Add(time.Second)
		s.add(name, now, shopCanary(t, name, step, change...))
	}
	const running, passed, failed = v1alpha1.StepPluginPhaseRunning, v1alpha1.StepPluginPhaseSuccessful, v1alpha1.StepPluginPhaseFailed
	add(checkoutEU, 1)
	add(payments, 1)
	add(checkout, smokeStep, says(smokeStep, running, "Job x is running"))
	add(checkout, togetherStep, says(smokeStep, passed, "Job x has succeeded"))
	add(checkout, togetherStep, says(smokeStep, passed, "Job x has succeeded"), says(togetherStep, running, "waiting for shop/payments"))
	add(checkout, regionsStep, says(smokeStep, passed, "Job x has succeeded"), says(togetherStep, passed, "shop/payments is at it"))
	add(checkout, regionsStep, says(togetherStep, passed, "shop/payments is at it"), says(regionsStep, running, "waiting for shop/checkout in eu"))
	add(checkoutEU, 0, backAtOldVersion)
	add(checkout, 0, says(togetherStep, passed, "shop/payments is at it"), says(regionsStep, failed, "shop/checkout in eu failed"), backAtOldVersion)
	add(payments, 0, backAtOldVersion)
	s.addJob(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "x"}})
	s.addJob(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Status: batchv1.JobStatus{Succeeded: 1}})
	s.chat = []said{{start, begunText + ", with " + stepsImage}, {now, rolledBackText + ": shop/checkout in eu failed"}}
	return s
}

func TestJudgeSteps(t *testing.T) {
	if got := texts(stepsTable(judgeSteps(stepsStory(t)), start, 2*time.Minute)); strings.Contains(got, "✗") || !strings.Contains(got, "\nAs claimed, in 2m0s") {
		t.Errorf("as claimed, and judged:\n%s", got)
	}
	lastGone := func(name string) func(*story) {
		return func(s *story) { s.rollouts[name] = s.rollouts[name][:len(s.rollouts[name])-1] }
	}
	for name, tt := range map[string]struct {
		change func(*story)
		want   string
	}{
		"nothing is seen":          {func(s *story) { *s = story{} }, "checkout was not seen at all"},
		"nothing is told":          {func(s *story) { s.chat = s.chat[1:] }, `0 messages that begin with "the canary of checkout`},
		"told twice":               {func(s *story) { s.chat = append(s.chat, s.chat[0]) }, `2 messages that begin with "the canary of checkout`},
		"told of another version":  {func(s *story) { s.chat[0].text = begunText }, "the message does not name " + stepsImage},
		"told without a reason":    {func(s *story) { s.chat[1].text = rolledBackText }, "the message does not name eu"},
		"no Job":                   {func(s *story) { s.jobs = nil }, "0 Jobs instead of 1"},
		"a Job that fails":         {func(s *story) { s.jobs["x"] = time.Time{} }, "Job x has not succeeded"},
		"payments is not awaited":  {func(s *story) { s.rollouts[checkout] = append(s.rollouts[checkout][:2:2], s.rollouts[checkout][3:]...) }, "checkout waits for payments: it was not seen"},
		"the region is not waited": {func(s *story) { s.rollouts[checkout] = append(s.rollouts[checkout][:4:4], s.rollouts[checkout][5:]...) }, "checkout waits for the region eu: it was not seen"},
		"the region goes on":       {lastGone(checkoutEU), "the canary in eu fails, and is rolled back: it was not seen; last, checkout in eu was Progressing at step 2 of 4"},
		"checkout stays":           {lastGone(checkout), "checkout was Progressing at step 5 of 7: waiting for shop/checkout in eu"},
		"payments stays":           {lastGone(payments), "payments is rolled back with it: it was not seen"},
		"pods of the new version":  {func(s *story) { s.rollouts[payments][1].Updated = 1 }, "payments is rolled back with it: it was not seen"},
		"payments is promoted":     {func(s *story) { s.rollouts[payments][1].Step, s.rollouts[payments][1].Aborted = 5, false }, "payments was Degraded, with all steps done"},
		"a promotion":              {func(s *story) { s.rollouts[payments][0].Promoted = true }, "payments was promoted"},
		"an unknown request":       {func(s *story) { s.refused = []string{"GET /x: there is nothing"} }, "GET /x"},
	} {
		t.Run(name, func(t *testing.T) {
			s := stepsStory(t)
			tt.change(&s)
			if got := texts(stepsTable(judgeSteps(s), start, 2*time.Minute)); !strings.Contains(got, tt.want) || !strings.Contains(got, "✗") || strings.Contains(got, "As claimed") {
				t.Errorf("want %q in\n%s", tt.want, got)
			}
		})
	}
}

func TestStepsChanges(t *testing.T) {
	s := story{rollouts: map[string][]stepsSeen{}}
	s.add(checkout, start, shopCanary(t, checkout, chatStep))
	waiting := shopCanary(t, checkout, regionsStep, says(regionsStep, v1alpha1.StepPluginPhaseRunning, "regions: waiting for eu"))
	want := "checkout        step 5/7: regions\ncheckout        regions: waiting for eu\n"
	if diff := cmp.Diff(want, texts(s.add(checkout, start, waiting))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if lines := s.add(checkout, start, waiting); len(lines) > 0 {
		t.Errorf("nothing is new, and it says:\n%s", texts(lines))
	}
	want = "checkout        aborted\ncheckout        all its pods run the version before\n"
	backAtOldVersion(waiting)
	if diff := cmp.Diff(want, texts(s.add(checkout, start, waiting))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	old := shopCanary(t, checkout, 0)
	old.Generation = 3
	if lines := s.add(checkout, start, old); len(lines) > 0 {
		t.Errorf("a status of an older spec says:\n%s", texts(lines))
	}
	want = strings.Repeat("─", 76) + `
  checkout       - 50 %   - chat   - smoke   - together   - regions   - together   - 100 %
                 Degraded, 2 pods, 0 of them new
`
	if diff := cmp.Diff(want, texts(s.panel())); diff != "" {
		t.Errorf("panel (-want +got):\n%s", diff)
	}
}

// The steps that are judged are those of the manifest.
func TestJudgedSteps(t *testing.T) {
	steps := shopCanary(t, checkout, 0).Spec.Strategy.Canary.Steps
	for index, want := range map[int]string{chatStep: "chat", smokeStep: "smoke", togetherStep: "together", regionsStep: "regions"} {
		if got := describeStep(steps[index]); got != want {
			t.Errorf("step %d is %s, want %s", index, got, want)
		}
	}
}

func TestOutside(t *testing.T) {
	o := &outside{said: make(chan string, 1)}
	server := httptest.NewServer(o.handler())
	defer server.Close()
	for _, tt := range []struct {
		method, path, body string
		want               int
	}{
		{http.MethodPost, "/chat", `{"text": "hello"}`, 200},
		{http.MethodPost, "/chat", `{"text": ""}`, 400},
		{http.MethodPost, "/chat", `{"text": "hello", "channel": "x"}`, 400},
		{http.MethodGet, "/monitoring/checkout", "", 200},
		{http.MethodGet, "/monitoring/payments", "", 400},
	} {
		request, err := http.NewRequestWithContext(t.Context(), tt.method, server.URL+tt.path, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != tt.want {
			t.Errorf("%s %s %s: %s, want %d", tt.method, tt.path, tt.body, response.Status, tt.want)
		}
	}
	chat, refused := o.heard()
	if len(chat) != 1 || chat[0].text != "hello" || len(refused) != 3 {
		t.Errorf("heard %v, refused %q", chat, refused)
	}
	if text := <-o.said; text != "hello" {
		t.Errorf("shown: %q", text)
	}
}
