package xds

import (
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// A panic while one object is translated is a Problem of that object, which goes on
// in its last valid form; all others go on with what changed.
func TestAPanicOverOneObjectReachesNoOther(t *testing.T) {
	both(t, func(t *testing.T, sotw bool) {
		w := newWorld(t, envoy.Options{}, func(s *Server) {
			validate := s.validate
			s.validate = func(r *routes.Route) error {
				if r.ResponseHeader != nil {
					panic("a fault of the translation")
				}
				return validate(r)
			}
		})
		e := newFake(t, w.dialer(), sotw)
		for _, name := range []string{"app", "canary", "other"} {
			w.service(name, "10.0.0.1:80")
		}
		w.object("app", "app=80", "canary=20")
		w.object("other")
		w.commit()
		e.run()
		e.has(w)
		w.objectIn("demo", "app", absurd, "app=50", "canary=50")
		w.object("other", "other=70", "canary=30")
		w.commit()
		eventually(t, "the other object's split", func() bool {
			return e.split("other.example.com") == "demo/other/other=70 demo/other/canary=30"
		})
		eventually(t, "the object's own split in its last valid form", func() bool {
			return e.split("app.example.com") == "demo/app/app=50 demo/app/canary=50"
		})
		w.objectIn("demo", "app", absurd)
		w.commit()
		eventually(t, "the abort", func() bool { return e.split("app.example.com") == "demo/app/app" })
		if got := w.told.problems(); len(got) != 1 || got[0].Reason != InvalidForEnvoy || !strings.Contains(got[0].Message, "(a fault of the translation)") {
			t.Errorf("told %v; expected one %s", got, InvalidForEnvoy)
		}
		w.object("app")
		w.commit()
		eventually(t, "nothing to tell of", func() bool { return w.told.objects() == "" })
		e.check()
	})
}
