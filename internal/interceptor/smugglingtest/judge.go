package smugglingtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Target is a proxy under test and the applications behind it.
type Target struct {
	// Address is the host:port of the proxy. It serves Host from App, and
	// "other." before that from Other.
	Address, Host string
	App, Other    *Application
	// Patience is how long a client waits until the proxy has ended a connection;
	// a proxy that takes longer hangs.
	Patience time.Duration
	// Settle returns when the proxy has sent all that it will to the applications.
	Settle func()
}

// General is the name under which Run returns faults that belong to no single case.
const General = "(no case)"

// atOnce is how many cases run concurrently: a proxy takes its time to close a
// connection.
const atOnce = 16

// Run sends the cases to the proxy, closes the applications, and returns the
// proxy's faults by the name of the case. Without faults the map is empty.
func Run(target Target, cases []Case) map[string][]string {
	j := &judge{Target: target, cases: map[string]Case{}, transcripts: map[string]transcript{}, arrived: map[string][]arrival{}, faults: map[string][]string{}}
	var running sync.WaitGroup
	room := make(chan struct{}, atOnce)
	for _, c := range cases {
		j.cases[c.slug()] = c
		running.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			t := c.send(target.Address, target.Host, target.Patience)
			j.mu.Lock()
			defer j.mu.Unlock()
			j.transcripts[c.slug()] = t
		})
	}
	running.Wait()
	target.Settle()
	for _, a := range []*Application{target.App, target.Other} {
		j.collect(a)
	}
	for _, c := range cases {
		j.judge(c)
	}
	return j.faults
}

type judge struct {
	Target
	cases map[string]Case // by slug

	mu          sync.Mutex
	transcripts map[string]transcript // by slug
	arrived     map[string][]arrival  // by slug
	faults      map[string][]string   // by name
}

// arrival is a request that an application got.
type arrival struct {
	application, kind string // case, smuggled or after
	target            string
	body              string
	complete          bool
}

func (j *judge) fault(name, format string, args ...any) {
	j.faults[name] = append(j.faults[name], fmt.Sprintf(format, args...))
}

// targets finds the case that a message belongs to.
var targets = regexp.MustCompile(`/(case|smuggled|after)/([A-Za-z0-9_-]+)`)

func (j *judge) nameOf(text []byte) string {
	if found := targets.FindSubmatch(text); found != nil {
		if c, known := j.cases[string(found[2])]; known {
			return c.Name
		}
	}
	return General
}

// collect reads what an application was sent.
func (j *judge) collect(a *Application) {
	sent, err := a.Close()
	if err != nil {
		j.fault(General, "closing application %s: %v", a.Name, err)
	}
	host := j.Host
	if a == j.Other {
		host = "other." + host
	}
	for _, text := range sent {
		messages, err := readMessages(text)
		var ambiguous *ambiguousError
		if errors.As(err, &ambiguous) {
			j.fault(j.nameOf(ambiguous.Text), "application %s was sent what can be read in more than one way: %v", a.Name, err)
		}
		for _, m := range messages {
			name := j.nameOf([]byte(m.Target))
			if m.Complete && !slices.Contains(m.Values("host"), host) {
				j.fault(name, "application %s was asked for hosts %q, want %s", a.Name, m.Values("host"), host)
			}
			if found := targets.FindStringSubmatch(m.Target); found != nil {
				j.arrived[found[2]] = append(j.arrived[found[2]], arrival{a.Name, found[1], m.Target, string(m.Body), m.Complete})
			}
		}
	}
}

// judge compares what the client and the applications got with what the case wants.
func (j *judge) judge(c Case) {
	t := j.transcripts[c.slug()]
	fault := func(format string, args ...any) { j.fault(c.Name, format, args...) }
	if t.unreachable {
		fault("the proxy takes no connection: %s", t)
	}
	if t.hung {
		fault("the proxy hangs: after %s it has not ended the connection; so far: %s", j.Patience, t)
	}
	count := map[string]int{}
	for _, a := range j.arrived[c.slug()] {
		count[a.kind]++
		if a.kind == "smuggled" && !c.SecondMayFollow {
			fault("a second request has reached application %s", a.application)
		}
	}
	for _, kind := range []string{"case", "smuggled", "after"} {
		if count[kind] > 1 {
			fault("the applications were asked for /%s/%s %d times", kind, c.slug(), count[kind])
		}
	}
	if answered := t.answersFor("/smuggled/" + c.slug()); count["smuggled"] != answered {
		fault("%d smuggled requests have reached the applications, and the client got %d answers to it", count["smuggled"], answered)
	}
	switch {
	case len(t.answers) > 0:
		j.judgeAnswers(c, t)
	case c.Want == Served:
		fault("it is to be served, and got no answer: %s", t)
	case c.HTTP2 == nil && !c.MayClose:
		fault("it got no answer: %s", t)
	default:
		j.judgeRefusal(c)
	}
}

func (j *judge) judgeAnswers(c Case, t transcript) {
	first := t.answers[0]
	switch {
	case first.status == http.StatusOK && c.Want != Refused:
		j.judgeService(c, t)
	case blamesTheRequest(first.status) && c.Want != Served:
		j.judgeRefusal(c)
	default:
		j.fault(c.Name, "it is to be %s, and was answered with %d %.200q", c.Want, first.status, first.body)
	}
}

// blamesTheRequest tells whether a status says that a server does not accept the
// request. Other 5xx statuses say that the application has failed, or that the
// proxy has left the refusal to it.
func blamesTheRequest(status int) bool {
	return status >= 400 && status < 500 || status == http.StatusNotImplemented || status == http.StatusHTTPVersionNotSupported
}

// judgeRefusal is for requests that the proxy does not serve: an application may
// have got the beginning of one, but not all of it.
func (j *judge) judgeRefusal(c Case) {
	for _, a := range j.arrived[c.slug()] {
		if a.kind == "case" && a.complete && !c.MayArrive {
			j.fault(c.Name, "the proxy has refused it, and application %s has got it: %s", a.application, a.target)
		}
	}
}

// judgeService is for requests that the proxy serves: the right application must
// have answered, and the request behind it needs an answer if the connection went
// on.
func (j *judge) judgeService(c Case, t transcript) {
	fault := func(format string, args ...any) { j.fault(c.Name, format, args...) }
	want := seen{Application: j.App.Name, Target: c.path(), Body: c.fill(c.Body, j.Host)}
	if c.Other {
		want.Application = j.Other.Name
	}
	got, err := t.answers[0].seen()
	if err != nil {
		fault("the answer is not an application's: %v", err)
	}
	if got.Target, _, _ = strings.Cut(got.Target, "?"); got != want {
		fault("application %q has answered to %s with body %q; want application %q, %s, body %q",
			got.Application, got.Target, got.Body, want.Application, want.Target, want.Body)
	}
	last := t.answers[len(t.answers)-1]
	switch {
	case c.HTTP2 != nil, t.answersFor("/after/"+c.slug()) == 1:
	case len(t.answers) == 1 && last.closes: // the answer said that it closes
	case c.Want != Served && blamesTheRequest(last.status): // the proxy refuses what follows
	default:
		fault("the request behind it got no answer: %s", t)
	}
}

func (a answer) seen() (s seen, err error) {
	err = json.Unmarshal([]byte(a.body), &s)
	return s, err
}

// answersFor counts the answers of applications to requests for target.
func (t transcript) answersFor(target string) (n int) {
	for _, a := range t.answers {
		if s, err := a.seen(); err == nil && a.status == http.StatusOK && s.Target == target {
			n++
		}
	}
	return n
}
