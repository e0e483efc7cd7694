package withdrawal

import "testing"

func TestWithdraw(t *testing.T) {
	lost, recent, gone := contact{lost: true}, contact{sees: true}, contact{}
	steady := contact{sees: true, steady: true}
	for name, tt := range map[string]struct {
		withdrawn bool
		contact   contact
		best      state // of another interceptor
		want      bool
	}{
		"sees, another too":                          {false, steady, current, false},
		"sees, alone":                                {false, steady, unavailable, false},
		"lost a moment ago, another sees":            {false, gone, current, false},
		"lost, another sees":                         {false, lost, current, true},
		"lost, another has lost it, too":             {false, lost, stale, false},
		"lost, alone":                                {false, lost, unavailable, false},
		"withdrawn, another sees":                    {true, lost, current, true},
		"withdrawn, the other has lost it since":     {true, lost, stale, true},
		"withdrawn, the other is gone":               {true, lost, unavailable, false},
		"sees again, another sees":                   {true, recent, current, true},
		"sees again, the other has lost it since":    {true, recent, stale, false},
		"sees again, the other is gone":              {true, recent, unavailable, false},
		"steady again, another sees":                 {true, steady, current, false},
		"seen for less than a period, another stale": {true, gone, stale, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := withdraw(tt.withdrawn, tt.contact, tt.best); got != tt.want {
				t.Errorf("withdrawn: %v, want %v", got, tt.want)
			}
		})
	}
}
