package kube_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// Objects that a field selector does not match are neither listed nor watched.
func TestSummariesOfOneName(t *testing.T) {
	server := apiservertest.New(t)
	server.PutObject("rollouts", colored("a", "red"))
	server.PutObject("rollouts", colored("b", "red"))
	summaries, _ := newSummaries(t, server, func(opts *kube.SummariesOptions[color]) { opts.Fields = "metadata.name=a" })
	if watching, err := summaries.Await(t.Context()); !watching || err != nil {
		t.Fatal("no watch:", err)
	}
	server.PutObject("rollouts", colored("b", "green"))
	server.PutObject("rollouts", colored("c", "green"))
	server.PutObject("rollouts", colored("a", "green"))
	awaitColor(t, summaries, "a", "green")
	if got := seen(summaries); got != "a green" {
		t.Errorf("seen: %s", got)
	}
}

func seen(summaries *kube.Summaries[color]) string {
	var all []string
	for _, object := range summaries.Seen("demo") {
		all = append(all, object.Name+" "+string(object.Content))
	}
	slices.Sort(all)
	text := fmt.Sprint(all)
	return text[1 : len(text)-1]
}

// What was seen stays known while the API server refuses or fails, and Answered says so.
func TestSummariesSeenInAnOutage(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter, apiservertest.Request){
		"refused": apiservertest.Forbidden, "not known": apiservertest.Unauthorized,
		"down": func(w http.ResponseWriter, r apiservertest.Request) {
			apiservertest.Fail(w, http.StatusServiceUnavailable, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := apiservertest.New(t)
			server.PutObject("rollouts", colored("a", "red"))
			answers := make(chan error, 1000)
			summaries, _ := newSummaries(t, server, func(opts *kube.SummariesOptions[color]) {
				opts.Answered = func(err error) { answers <- err }
			})
			if got := summaries.Seen("demo"); len(got) > 0 || len(server.Requests()) > 0 {
				t.Errorf("%v is seen before the watch", got)
			}
			if watching, err := summaries.Await(t.Context()); !watching || err != nil {
				t.Fatal("no watch:", err)
			}
			awaitAnswer := func(fails bool) {
				t.Helper()
				for over := time.After(time.Minute); ; {
					select {
					case err := <-answers:
						if (err != nil) == fails {
							return
						}
					case <-over:
						t.Fatalf("no answer that fails (%t)", fails)
					}
				}
			}
			awaitAnswer(false)
			server.SetFault(func(w http.ResponseWriter, _ *http.Request, request apiservertest.Request) bool {
				answer(w, request)
				return true
			})
			server.EndWatches()
			awaitAnswer(true)
			if got := seen(summaries); got != "a red" {
				t.Errorf("seen in an outage: %q", got)
			}
			server.SetFault(nil)
			awaitAnswer(false)
			if got := summaries.Seen("other"); len(got) > 0 {
				t.Errorf("seen in another namespace: %v", got)
			}
		})
	}
}
