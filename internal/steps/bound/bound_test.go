package bound

import (
	"errors"
	"regexp"
	"strings"
	"testing"
)

// full is a budget with plenty of work.
func full() *Budget { return New(1<<20, 64<<10) }

// isBound tells whether an error is one of this package's.
func isBound(err error) bool {
	var bound *Error
	return errors.As(err, &bound)
}

func TestSpendFailsOnceTheBudgetIsUsedUp(t *testing.T) {
	b := New(10, 10)
	if err := b.Spend(10); err != nil {
		t.Fatal(err)
	}
	if err := b.Spend(1); !isBound(err) {
		t.Errorf("Spend with nothing left is %v", err)
	}
	if err := New(10, 10).Spend(-1); !isBound(err) {
		t.Errorf("Spend of what has overflowed is %v", err)
	}
}

func TestTakeCountsWhatIsReferredToEachTime(t *testing.T) {
	var shared any = "x"
	for range 40 {
		shared = []any{shared, shared}
	}
	deep := any("x")
	for range 100 {
		deep = map[string]any{"a": deep}
	}
	cycle := map[string]any{}
	cycle["self"] = cycle
	for name, value := range map[string]any{
		"a list that holds another twice, 40 times over": shared,
		"100 maps in one another":                        deep,
		"a map that holds itself":                        cycle,
		"a long text":                                    strings.Repeat("x", 64<<10+1),
		"a long key":                                     map[string]string{strings.Repeat("x", 64<<10): ""},
		"a long list of nothing":                         make([]any, 5000),
	} {
		if err := full().Take(value); !isBound(err) {
			t.Errorf("Take of %s is %v", name, err)
		}
	}
	b := full()
	if err := b.Take("abc", 1, nil, []string{"d"}, map[string]any{"e": 1.5}); err != nil {
		t.Fatal(err)
	}
	if spent := 1<<20 - b.Left(); spent < 5 || spent > 500 {
		t.Errorf("Take of small values spends %d", spent)
	}
	half := strings.Repeat("x", 40<<10)
	if err := full().Take(half, half); !isBound(err) {
		t.Errorf("Take of two values that are too large together is %v", err)
	}
}

func TestTextsDoNotGrowBeyondBounds(t *testing.T) {
	long := strings.Repeat("a", 32<<10)
	if _, err := full().Replace(long, "a", long, -1); !isBound(err) {
		t.Errorf("Replace is %v", err)
	}
	if _, err := full().Replace(long, "", long, -1); !isBound(err) {
		t.Errorf("Replace of nothing is %v", err)
	}
	if got, err := full().Replace("aaa", "a", "bb", 2); got != "bbbba" || err != nil {
		t.Errorf("Replace = %q, %v", got, err)
	}
	if _, err := full().Join(make([]string, 4000), long); !isBound(err) {
		t.Errorf("Join is %v", err)
	}
	if got, err := full().Join([]string{"a", "b"}, ", "); got != "a, b" || err != nil {
		t.Errorf("Join = %q, %v", got, err)
	}
	if _, err := full().Trim(long, strings.Repeat("é", 100)); !isBound(err) {
		t.Errorf("Trim is %v", err)
	}
	if got, err := full().Trim("//a/", "/"); got != "a" || err != nil {
		t.Errorf("Trim = %q, %v", got, err)
	}
}

func TestRegularExpressionsAreBounded(t *testing.T) {
	for _, expression := range []string{
		strings.Repeat("a", 257),
		strings.Repeat("x{1000}", 30),
		"((x{30}){30}){30}",
		`(\pL{10}){100}`,
	} {
		if _, err := full().Match("x", expression); err == nil {
			t.Errorf("Match of %.40q is no error", expression)
		}
	}
	if _, err := New(100_000, 64<<10).Match(strings.Repeat("x", 60<<10), "(x|y|z|xx|yy|zz)*w"); !isBound(err) {
		t.Errorf("a match in a long text is %v", err)
	}
	// Each of n matches reads the rest of the text, which is n² in all.
	if _, _, err := full().Matches(strings.Repeat("a", 1000), "a*b|a", -1); !isBound(err) {
		t.Errorf("all of many matches is %v", err)
	}
	if _, err := full().ReplaceMatches(strings.Repeat("a", 1000), "(a+)", strings.Repeat("$1", 128), false); !isBound(err) {
		t.Errorf("a replacement that grows is %v", err)
	}
	if _, err := full().ReplaceMatches("a", "a", strings.Repeat("b", 257), true); !isBound(err) {
		t.Errorf("a long replacement is %v", err)
	}
	if _, err := full().Match("a", "("); err == nil || isBound(err) {
		t.Errorf("a wrong regular expression is %v", err)
	}
}

func TestRegularExpressionsDoWhatGoDoes(t *testing.T) {
	for _, text := range []string{"", "abab", "xaby", "éabé"} {
		for _, expression := range []string{"", "a(b)", "^a", "b$", "x*", `\bab`, "(?i)AB"} {
			re := regexp.MustCompile(expression)
			if got, err := full().Match(text, expression); err != nil || got != re.MatchString(text) {
				t.Errorf("Match(%q, %q) = %v, %v", text, expression, got, err)
			}
			if got, err := full().ReplaceMatches(text, expression, "<$1>", false); err != nil || got != re.ReplaceAllString(text, "<$1>") {
				t.Errorf("ReplaceMatches(%q, %q) = %q, %v", text, expression, got, err)
			}
			if got, err := full().ReplaceMatches(text, expression, "<$1>", true); err != nil || got != re.ReplaceAllLiteralString(text, "<$1>") {
				t.Errorf("literal ReplaceMatches(%q, %q) = %q, %v", text, expression, got, err)
			}
			for _, n := range []int{-1, 0, 1, 2} {
				_, got, err := full().Matches(text, expression, n)
				if want := re.FindAllStringIndex(text, n); err != nil || len(got) != len(want) {
					t.Errorf("Matches(%q, %q, %d) = %v, %v, want %v", text, expression, n, got, err, want)
				}
			}
		}
	}
}

// The budgets of a pool share its work: what one evaluation has spent, the others cannot
// spend.
func TestAPoolIsSharedByItsBudgets(t *testing.T) {
	pool := NewPool()
	for spent := 0; spent < maxPool; spent += 1 << 20 {
		if err := pool.Budget(1<<20, 1).Spend(1 << 20); err != nil {
			t.Fatalf("after %d units: %v", spent, err)
		}
	}
	if err := pool.Budget(1<<20, 1).Spend(1); err == nil || !strings.Contains(err.Error(), "of the step take more work together") {
		t.Errorf("got %v", err)
	}
	var none *Pool
	if err := none.Budget(1, 1).Spend(1); err != nil {
		t.Errorf("without a pool: %v", err)
	}
	if err := NewPool().Budget(1, 1).Spend(2); err == nil || strings.Contains(err.Error(), "together") {
		t.Errorf("one that takes too much alone: got %v", err)
	}
}
