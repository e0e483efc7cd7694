//go:build !race

package cel

import (
	"context"
	"errors"
	"runtime"
	"runtime/metrics"
	"strings"
	"syscall"
	"testing"
	"time"
)

// longest are parts of expressions that take long to read.
var longest = []string{
	"1", "-1==1||", "true&&", "((((1))))==1||", "{1:{}}=={}||", "[]+[]+[]+[]+[]+[]==[]||", "{}[1]==1||", "[][0]==[][0]||", "[1][?1].or([1][?1])==[1][?1]||",
	"[1].map(a,[a].map(b,[a,b]))==[]||", "[1]" + strings.Repeat(".map(a,{1:{1:a}})", 18) + "==[]||", "[" + strings.Repeat("{},", 200) + "{}]==[]||",
	`"a".matches("(?i)` + strings.Repeat("[ -~]", 45) + `")||`, "response.json.a.b.c.d==1||",
}

// objects are answers of a megabyte that take much memory.
var objects = []string{`{"":0}`, `{"a":{}}`, `{}`, `[]`, `[[]]`, `0`, `""`}

// kept are texts and JSON whose results are kept, with the expressions in them.
var kept = []string{`https://ci/{{ outputs.id }}`, `{{ outputs.url }}`, `a{{ "b" }}`, `["{{ outputs.url }}"]`,
	`{"a": "{{ response.json.objects.filter(o, has(o.id) && o.id < 500) }}"}`, `"{{ response.json.one.filter(o, o < 10000) }}"`}

// TestWorst measures the worst that the texts of one operation can do: reading as many
// expressions as a step may have, reading an answer, and evaluating hostile expressions over
// it until the budget is used up. All of that together takes a second of a CPU and 64 MB at
// most.
func TestWorst(t *testing.T) {
	reading, answers, evaluating := worst{name: "reading"}, worst{name: "answer"}, worst{name: "evaluating"}
	for _, part := range longest {
		source := part
		if strings.HasSuffix(part, "||") || strings.HasSuffix(part, "&&") {
			source = strings.Repeat(part, max(1, maxExpression/3/len(part))) + "true"
		}
		reading.measure(t, source, func() {
			e := newEnv(t)
			for err := error(nil); err == nil; _, err = e.Value(source) {
				clear(e.read)
			}
		})
	}
	keyed := []byte(`{"` + strings.Repeat("k", 30<<10) + `": [` + strings.Repeat(`"{{1}}",`, 4200) + `1]}`)
	reading.measure(t, "JSON with a long key", func() {
		value, err := newEnv(t).JSON(keyed, nil)
		if err != nil {
			t.Error(err)
		}
		runtime.KeepAlive(value)
	})
	for _, object := range objects {
		count := 1 << 20 / (len(object) + 1)
		if braces := strings.Count(object, "{"); braces > 0 {
			count = min(count, maxObjects/braces)
		}
		data := []byte("[" + strings.Repeat(object+",", count-1) + object + "]")
		var err error
		answers.measure(t, object, func() { _, err = FromJSON(data) })
		if err != nil {
			t.Error(err)
		}
	}
	given := large(t)
	for _, source := range hostile {
		x, err := newEnv(t).Condition(source)
		if err != nil {
			t.Errorf("%.100s: %v", source, err)
			continue
		}
		evaluating.measure(t, source, func() {
			budget := NewBudget()
			for rounds := 0; budget.left > 0 && rounds < 1_000_000; rounds++ {
				_, err = x.Bool(context.Background(), budget, given)
			}
		})
		if !errors.Is(err, errWork) {
			t.Errorf("%.100s: %v", source, err)
		}
	}
	given["outputs"] = map[string]any{"id": strings.Repeat("/", 20<<10), "url": strings.Repeat("a", 60<<10)}
	for i, source := range kept {
		render := func(budget *Budget) (any, error) { return nil, nil }
		if i < 3 {
			text, err := newEnv(t).text(source, []use{inURL, inText, inText}[i])
			if err != nil {
				t.Fatal(err)
			}
			render = func(budget *Budget) (any, error) { return text.Render(context.Background(), budget, given) }
		} else {
			value, err := newEnv(t).JSON([]byte(source), nil)
			if err != nil {
				t.Fatal(err)
			}
			render = func(budget *Budget) (any, error) { return value.Render(context.Background(), budget, given, nil) }
		}
		var err error
		evaluating.measure(t, source, func() {
			var results []any
			var result any
			for budget := NewBudget(); err == nil; result, err = render(budget) {
				results = append(results, result)
			}
			runtime.KeepAlive(results)
		})
		if !errors.Is(err, errWork) {
			t.Errorf("%.100s: %v", source, err)
		}
	}
	cpu, heap := reading.cpu+answers.cpu+evaluating.cpu, reading.heap+answers.heap+evaluating.heap
	t.Logf("together %v, %d MB", cpu, heap>>20)
	if cpu > time.Second || heap > 64<<20 {
		t.Errorf("an operation takes %v and %d MB", cpu, heap>>20)
	}
}

// worst is the most that something takes.
type worst struct {
	name string
	cpu  time.Duration
	heap uint64
}

// measure measures f, and once more if it is slower than all before: other processes disturb.
func (w *worst) measure(t *testing.T, source string, f func()) {
	cpu, heap := measured(f)
	if cpu > w.cpu || heap > w.heap {
		again, heapAgain := measured(f)
		cpu, heap = min(cpu, again), min(heap, heapAgain)
	}
	t.Logf("%-10s %5d ms %3d MB  %.100s", w.name, cpu.Milliseconds(), heap>>20, source)
	w.cpu, w.heap = max(w.cpu, cpu), max(w.heap, heap)
}

// measured returns how long a function takes, and how much larger the heap was meanwhile at
// most.
func measured(f func()) (cpu time.Duration, heap uint64) {
	runtime.GC()
	before := heapBytes()
	stop, highest := make(chan struct{}), make(chan uint64)
	go func() {
		most := before
		for {
			select {
			case <-stop:
				highest <- max(most, heapBytes())
				return
			default:
				most = max(most, heapBytes())
				time.Sleep(time.Millisecond)
			}
		}
	}()
	start := cpuTime()
	f()
	cpu = cpuTime() - start
	close(stop)
	return cpu, <-highest - before
}

// cpuTime is what the process has used, the garbage collector included.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func heapBytes() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
