package withdrawal

import (
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	// Path is where an interceptor answers on its admin port.
	Path = "/apiserver"
	// maxAsked bounds the interceptors that are asked at a time. If there are more, the
	// next time others are asked.
	maxAsked = 16
	// answerTime is how long an interceptor may take to answer.
	answerTime = 2 * time.Second
	// maxAnswerBytes bounds an answer.
	maxAnswerBytes = 1 << 10
)

// answer is the body of an answer.
type answer struct {
	State string `json:"state"`
	// LastSeen is when the API server was last seen; nil if it never was.
	LastSeen *time.Time `json:"lastSeen,omitempty"`
}

// newClient returns a client that asks the address it is given, and no proxy.
func newClient() *http.Client {
	return &http.Client{
		Timeout:       answerTime,
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// ask returns the best state of the other interceptors, and where it is. An address at
// which no interceptor answers is unavailable. The own address may be among them.
func (w *Withdrawal) ask(ctx context.Context) (best state, at netip.Addr) {
	others := slices.Clone(w.options.Others())
	rand.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	others = others[:min(len(others), maxAsked)]
	states := make([]state, len(others))
	var asked sync.WaitGroup
	for i, other := range others {
		asked.Go(func() { states[i] = w.askOne(ctx, other) })
	}
	asked.Wait()
	for i, s := range states {
		if s > best {
			best, at = s, others[i]
		}
	}
	return best, at
}

func (w *Withdrawal) askOne(ctx context.Context, other netip.Addr) state {
	url := "http://" + net.JoinHostPort(other.String(), strconv.Itoa(int(w.options.Port))) + Path
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return unavailable
	}
	response, err := w.client.Do(r)
	if err != nil {
		return unavailable
	}
	defer response.Body.Close()
	var a answer
	if response.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(response.Body, maxAnswerBytes)).Decode(&a) != nil {
		return unavailable // an earlier release, or another pod that has the address now
	}
	return state(max(0, slices.Index(stateNames[:], a.State)))
}
