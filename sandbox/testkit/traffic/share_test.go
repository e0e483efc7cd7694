package traffic

import (
	"strings"
	"testing"
)

// answers makes answers of letters: c for canary, s for stable.
func answers(letters string) []Answer {
	list := make([]Answer, len(letters))
	for i, letter := range letters {
		list[i] = Answer{Number: i, Backend: map[rune]string{'c': "canary", 's': "stable"}[letter]}
	}
	return list
}

func TestCheckSmooth(t *testing.T) {
	const fifth = "csscsssscs" // 3 of 10
	for name, tc := range map[string]struct {
		letters string
		weight  int
		err     string
	}{
		"even":                    {strings.Repeat("cssss", 60), 20, ""},
		"one more":                {strings.Repeat("cssss", 10) + "c" + strings.Repeat("cssss", 30), 20, ""},
		"two more":                {strings.Repeat("cssss", 10) + "cc" + strings.Repeat("cssss", 30), 20, "22 went to canary in place of 20 ± 1"},
		"two fewer":               {strings.Repeat("cssss", 10) + strings.Repeat("s", 10) + strings.Repeat("cssss", 30), 20, "18 went to canary in place of 20 ± 1"},
		"in the last window only": {strings.Repeat("cssss", 40) + "ccc", 20, "from request 103 on, 22"},
		"on the whole alone":      {strings.Repeat("c", 60) + strings.Repeat("s", 240), 20, "from request 0 on, 60"},
		"another weight":          {strings.Repeat(fifth, 20), 20, "30 went to canary"},
		"half":                    {strings.Repeat("cs", 50), 50, ""},
		"too few":                 {strings.Repeat("cssss", 19), 20, "95 requests are too few"},
		"none":                    {"sss", 0, ""},
		"none but one":            {"ssc", 0, "request 2 went to canary while the weight of canary was 0"},
		"all":                     {"ccc", 100, ""},
		"all but one":             {"csc", 100, "request 1 went to stable"},
		"nothing at all":          {"", 100, ""},
	} {
		t.Run(name, func(t *testing.T) { requireError(t, CheckSmooth(answers(tc.letters), "canary", tc.weight), tc.err) })
	}
}

func TestCheckRandom(t *testing.T) {
	of := func(canary, stable int) string { return strings.Repeat("c", canary) + strings.Repeat("s", stable) }
	for name, tc := range map[string]struct {
		letters string
		weight  int
		err     string
	}{
		"as expected":    {of(20, 80), 20, ""},
		"the lowest":     {of(8, 92), 20, ""},
		"below that":     {of(7, 93), 20, "of 100 requests 7 went to canary; with a random pick it is 8 to 34"},
		"the highest":    {of(34, 66), 20, ""},
		"above that":     {of(35, 65), 20, "35 went to canary"},
		"more requests":  {of(842, 158), 80, "842 went to canary; with a random pick it is 757 to 841"},
		"too few":        {of(20, 79), 20, "99 requests are too few"},
		"none but one":   {of(1, 2), 0, "request 0 went to canary"},
		"all":            {of(3, 0), 100, ""},
		"nothing at all": {"", 0, ""},
	} {
		t.Run(name, func(t *testing.T) { requireError(t, CheckRandom(answers(tc.letters), "canary", tc.weight, 1), tc.err) })
	}
}

// The figures are sums of exact fractions.
func TestBinomialInterval(t *testing.T) {
	for _, tc := range []struct {
		n         int
		p         float64
		low, high int
	}{
		{100, 0.2, 8, 34},
		{100, 0.5, 34, 66},
		{250, 0.2, 30, 72},
		{1000, 0.8, 757, 841},
		{3, 0.5, 0, 3},
		{2000, 0.01, 7, 36},
		{400, 0, 0, 0},
		{400, 1, 400, 400},
		{20, 0.99, 17, 20},
		{0, 0.5, 0, 0},
	} {
		if low, high := BinomialInterval(tc.n, tc.p, 1); low != tc.low || high != tc.high {
			t.Errorf("of %d with %v: %d to %d, want %d to %d", tc.n, tc.p, low, high, tc.low, tc.high)
		}
	}
	if low, high := BinomialInterval(100, 0.5, 10); low != 31 || high != 69 {
		t.Errorf("one of ten: %d to %d, want 31 to 69", low, high)
	}
}

func requireError(t *testing.T, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}
