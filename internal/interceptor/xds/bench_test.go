package xds

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoytest"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/freeport"
)

func (w *world) fill(n int) {
	for i := range n {
		name := fmt.Sprintf("app%05d", i)
		w.service(name+"-s", fmt.Sprintf("10.%d.%d.1:80", i/250, i%250))
		w.service(name+"-c", fmt.Sprintf("10.%d.%d.2:80", i/250, i%250))
		w.object(name, name+"-s=90", name+"-c=10")
	}
	w.commit()
}

// BenchmarkUpdate measures how long the caller of Update waits after a change of one
// weight; BenchmarkPush measures what follows, until an Envoy has acknowledged the push.
func BenchmarkUpdate(b *testing.B) {
	for _, n := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := newWorld(b, envoy.Options{})
			w.fill(n)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				b.StopTimer()
				i++
				w.object("app00050", "app00050-s=50", fmt.Sprint("app00050-c=", i%1000))
				table, changes := w.builder.Commit()
				b.StartTimer()
				w.server.Update(table, changes)
			}
		})
	}
}

func BenchmarkPush(b *testing.B) {
	for _, n := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := newWorld(b, envoy.Options{})
			w.fill(n)
			st := &stream{server: w.server, clusters: newClusterSync(), routes: newRouteSync()}
			if err := w.server.join(st, nil); err != nil {
				b.Fatal(err)
			}
			defer w.server.leave(st)
			st.refresh()
			for _, c := range st.clusters.known {
				c.assigned = absent + 1
			}
			i := 0
			push := func() {
				st.refresh()
				p := st.nextPush()
				_ = st.server.configuration(p.all)
				st.routesAccepted(p)
			}
			push()
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				i++
				w.object("app00050", "app00050-s=50", fmt.Sprint("app00050-c=", i%1000))
				table, changes := w.builder.Commit()
				w.server.Update(table, changes)
				b.StartTimer()
				push()
			}
		})
	}
}

// TestMemory prints the memory of this process with a real Envoy that has as many objects
// as the variable MEMORY says. It takes a while, and is skipped without MEMORY.
func TestMemory(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("MEMORY"))
	if n == 0 {
		t.Skip("set MEMORY=10000 for it")
	}
	envoytest.Path(t)
	f := newFleet(t)
	f.server.SetFallback([]netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:1")})
	f.fill(n)
	runtime.GC()
	t.Log("with the table alone:", memory(t))
	bootstrap, err := envoy.Bootstrap(envoy.BootstrapOptions{XDSAddress: f.xds, AdminAddress: fmt.Sprint("127.0.0.1:", freeport.Get(t)), AdminPort: freeport.Get(t), SotW: os.Getenv("SOTW") != ""})
	if err != nil {
		t.Fatal(err)
	}
	f.envoy = envoytest.Start(t, bootstrap)
	f.envoy.Wait("the last object", func() error {
		c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", f.port))
		if err == nil {
			_ = c.Close()
		}
		return err
	})
	t.Log("with one Envoy:", memory(t))
	for i := range 50 {
		before := f.pushes()["routes"]
		f.object("app00050", "app00050-s=50", fmt.Sprint("app00050-c=", i+1))
		f.commit()
		eventually(t, "a push", func() bool { return f.pushes()["routes"] > before })
	}
	t.Log("after 50 changes:", memory(t), f.pushes())
}

func memory(t *testing.T) string {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "VmRSS") || strings.HasPrefix(line, "VmHWM") {
			all = append(all, strings.Join(strings.Fields(line), " "))
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return fmt.Sprint(all, " heap in use ", m.HeapInuse>>20, " MB")
}
