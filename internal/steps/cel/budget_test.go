package cel

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

func TestABudgetIsSharedByTheTextsOfAnOperation(t *testing.T) {
	given := large(t)
	text, err := newEnv(t).Text(`{{ response.json.objects.filter(x, x.?id.orValue(0) == 4999)[0].name }}`)
	if err != nil {
		t.Fatal(err)
	}
	budget := NewBudget()
	rendered := 0
	for ; err == nil && rendered < 1000; rendered++ {
		_, err = text.Render(context.Background(), budget, given)
	}
	if !errors.Is(err, errWork) || rendered < 5 || rendered > 100 {
		t.Errorf("after %d: %v", rendered, err)
	}
	if plain, _ := newEnv(t).Text(`{{ rollout.name }}`); plain != nil {
		if _, err := plain.Render(context.Background(), budget, given); !errors.Is(err, errWork) {
			t.Errorf("with nothing left: %v", err)
		}
	}
	if _, err := text.Render(context.Background(), NewBudget(), given); err != nil {
		t.Errorf("of another operation: %v", err)
	}
}

// TestTheSameCosts: a step must not fail on one machine and pass on another.
func TestTheSameCosts(t *testing.T) {
	given := vars(t)
	for _, source := range []string{`response.json.map.map(k, k).join(",")`, `rollout.labels.map(k, rollout.labels[k]).join("")`, `steps == steps ? "a" : "b"`} {
		text, err := newEnv(t).Text("{{ " + source + " }}")
		if err != nil {
			t.Fatal(err)
		}
		var left []int
		for range 20 {
			budget := NewBudget()
			if _, err := text.Render(context.Background(), budget, given); err != nil {
				t.Fatal(err)
			}
			left = append(left, budget.left)
		}
		for _, l := range left {
			if l != left[0] {
				t.Errorf("%s leaves %v", source, left)
				break
			}
		}
	}
}

func TestAnEvaluationEndsWithItsContext(t *testing.T) {
	given := large(t)
	for _, source := range []string{`response.json.one.all(x, x in response.json.one)`, `response.json.one.all(x, response.json.one.all(y, true || x == y))`} {
		x, err := newEnv(t).Condition(source)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		budget := NewBudget()
		budget.left = 1 << 40 // it would take an hour
		ended := make(chan error)
		go func() {
			_, err := x.Bool(ctx, budget, given)
			ended <- err
		}()
		cancel()
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", source, err)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s goes on", source)
		}
	}
}

func TestExpressionsAreSafeForConcurrentUse(t *testing.T) {
	given := vars(t)
	x, err := newEnv(t).Condition(`response.json.jobs.exists(j, rollout.name.matches("s.op") && j.ok && steps.build.outputs.sha != "")`)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 100 {
				if holds, err := x.Bool(context.Background(), NewBudget(), given); !holds || err != nil {
					t.Error(holds, err)
				}
			}
		})
	}
	group.Wait()
}
