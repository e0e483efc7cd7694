package xds

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
)

// listed tells whether the version that the fake has lists the form of an object.
func (f *fake) listed(name string) bool {
	return locked(f, func() bool { return strings.Contains(fmt.Sprint(f.versions[rds]), `"demo/`+name+`":{`) })
}

// An interceptor that starts while an object is invalid has no valid form of it. An
// Envoy that comes back to it keeps the form that it has, with the current split and
// endpoints. An object that was deleted is removed.
func TestEnvoyComesBackWhileAnObjectIsInvalid(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		w := newWorld(t, envoy.Options{})
		e := newFake(t, w.dialer(), sotw)
		for _, name := range []string{"app", "split", "gone", "anew", "other", "canary"} {
			w.service(name, "10.0.0.1:80")
		}
		w.object("app")
		w.object("split", "split=80", "canary=20")
		w.object("gone")
		w.object("anew")
		w.object("other")
		w.commit()
		e.run()
		e.has(w)
		invalid := func() {
			w.objectIn("demo", "app", absurd)
			w.objectIn("demo", "split", absurd, "split=50", "canary=50")
			w.objectIn("demo", "gone", absurd)
			w.objectIn("demo", "anew", absurd)
			w.commit()
		}
		invalid()
		serves := func(name, want string) {
			t.Helper()
			eventually(t, name+" served by "+want, func() bool { return e.split(name+".example.com") == want })
		}
		serves("split", "demo/split/split=50 demo/split/canary=50")
		for _, name := range []string{"app", "split", "gone", "anew"} {
			eventually(t, "a version that lists "+name, func() bool { return e.listed(name) })
		}
		for round := range 3 {
			e.end()
			// While no interceptor is running, one object is deleted, one is recreated,
			// and one is aborted.
			w.builder.DeleteHTTPScaledObject(objectNamed("gone"))
			w.objectIn("demo", "anew", func(o *httpv1alpha1.HTTPScaledObject) { absurd(o); o.UID = "another" })
			if round == 1 {
				w.objectIn("demo", "split", absurd)
			}
			w.service("app", fmt.Sprint("10.0.1.", round, ":80"))
			w.builder.Commit()
			w.server = newWorldLike(w)
			e = e.again(w.dialer())
			e.keeps = slices.DeleteFunc(e.keeps, func(domain string) bool {
				return strings.HasPrefix(domain, "gone.") || strings.HasPrefix(domain, "anew.")
			})
			e.run()
			serves("gone", "")
			serves("anew", "")
			serves("app", "demo/app/app")
			if round == 0 {
				serves("split", "demo/split/split=50 demo/split/canary=50")
			} else {
				serves("split", "demo/split/split")
				eventually(t, "the canary's cluster gone", func() bool {
					return locked(e, func() bool { return e.clusters["demo/split/canary"] == nil })
				})
			}
			eventually(t, "the endpoints of now", func() bool {
				return locked(e, func() bool {
					return strings.Contains(e.assignments["demo/app/app"].String(), fmt.Sprint("10.0.1.", round))
				})
			})
			w.service("app", fmt.Sprint("10.0.2.", round, ":80"))
			w.commit()
			eventually(t, "endpoints that follow", func() bool {
				return locked(e, func() bool {
					return strings.Contains(e.assignments["demo/app/app"].String(), fmt.Sprint("10.0.2.", round))
				})
			})
			eventually(t, "a version that lists what is served of these", func() bool {
				return e.listed("app") && e.listed("split") && !e.listed("gone") && !e.listed("anew")
			})
			// Another Envoy gets no form of the invalid object.
			late := newFake(t, w.dialer(), sotw)
			late.run()
			eventually(t, "what is valid", func() bool { return late.split("other.example.com") != "" })
			if got := late.split("app.example.com"); got != "" {
				t.Errorf("an Envoy that had nothing has %s", got)
			}
			late.check()
			late.end()
			e.check()
		}
		// The current split takes effect, and an object that is valid again is served.
		w.objectIn("demo", "split", absurd, "split=30", "canary=70")
		w.commit()
		serves("split", "demo/split/split=30 demo/split/canary=70")
		w.objectIn("demo", "split", absurd)
		w.commit()
		serves("split", "demo/split/split")
		locked(e, func() any { e.keeps = nil; return nil }) // app is deleted
		w.builder.DeleteHTTPScaledObject(objectNamed("app"))
		w.object("split", "split=60", "canary=40")
		w.object("anew")
		w.commit()
		e.has(w)
		eventually(t, "a version that lists nothing", func() bool { return !e.listed("app") && !e.listed("split") })
		e.check()
	})
}

// The form of an invalid object that an Envoy reports is not kept for other Envoys, and a
// report that is no valid form is not served.
func TestForgedStandIn(t *testing.T) {
	w := newWorld(t, envoy.Options{})
	w.service("app", "10.0.0.1:80")
	w.service("other", "10.0.0.1:80")
	w.objectIn("demo", "app", absurd)
	w.objectIn("demo", "other", absurd)
	w.commit()
	st := newStream(w.server, nil, true)
	if err := w.server.join(st, nil); err != nil {
		t.Fatal(err)
	}
	st.refresh()
	st.channels[rds].asked = true
	st.routes.had = `5 {"demo/app":{"uid":"uid-app","hosts":["made.example.com"],"paths":["/"],"split":[{"service":"app","weight":1}]},` +
		`"demo/other":{"uid":"uid-other","hosts":["UPPER"],"paths":["/"],"split":[{"service":"other","weight":1}]},` +
		`"demo/none":{"uid":"","hosts":["none.example.com"],"paths":["/"],"split":[{"service":"app","weight":1}]}}`
	st.adoptStandIns()
	if st.table.Len() != 1 || st.table.Route(objectNamed("app")) == nil {
		t.Errorf("%d routes; expected that of app alone", st.table.Len())
	}
	if w.server.now.table.Len() != 0 {
		t.Error("what one Envoy says is in the table of all")
	}
}

// The version stays short, however many objects are invalid.
func TestVersionOfManyInvalidObjects(t *testing.T) {
	w := newWorld(t, envoy.Options{})
	w.service("app", "10.0.0.1:80")
	all := func(change func(*httpv1alpha1.HTTPScaledObject)) {
		for i := range 1000 {
			w.objectIn("demo", fmt.Sprint("app", i), change, "app=1")
		}
		w.commit()
	}
	all(nil)
	all(absurd)
	st := newStream(w.server, nil, true)
	if err := w.server.join(st, nil); err != nil {
		t.Fatal(err)
	}
	st.refresh()
	text := st.versionText(5, st.table)
	if len(text) > maxVersionText || len(text) < maxVersionText-500 {
		t.Errorf("the version has %d bytes; expected %d at most, and not much less", len(text), maxVersionText)
	}
	st.namespaces = map[string]bool{"another": true}
	if text := st.versionText(5, st.table); text != version(5).String() {
		t.Errorf("the version tells an Envoy of another namespace %.100s", text)
	}
}
