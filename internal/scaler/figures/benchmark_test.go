package figures_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/loadreport"
)

// all returns a message in which each of so many objects has so many requests at three
// sources.
func all(objects, requests int) loadreport.Message {
	var m loadreport.Message
	for id, address := range []string{"", envoy, "10.0.1.2"} {
		s := loadreport.Source{ID: fmt.Sprint(id), Address: address}
		for i := range objects {
			s.Objects = append(s.Objects, loadreport.Object{Namespace: namespace, Name: fmt.Sprint("app-", i), Requests: int64(requests)})
		}
		m.Sources = append(m.Sources, s)
	}
	return m
}

// full returns Figures of so many objects that all had requests at three sources.
func full(objects int) *clocked {
	c := start([]string{"a"}, envoy, "10.0.1.2")
	for i := range 70 {
		c.Apply("a", all(objects, i))
		c.pass(time.Second)
	}
	return c
}

// A message in which all of 10,000 objects changed at three sources.
func BenchmarkApply(b *testing.B) {
	c := full(10000)
	m := all(10000, 0)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		for _, s := range m.Sources {
			for j := range s.Objects {
				s.Objects[j].Requests = int64(100 + i)
			}
		}
		c.Apply("a", m)
		c.pass(time.Second)
	}
}

func BenchmarkRate(b *testing.B) {
	for _, objects := range []int{10, 10000} {
		b.Run(fmt.Sprint(objects, " objects"), func(b *testing.B) {
			c := full(objects)
			key := app
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				key.Name = fmt.Sprint("app-", i%objects)
				if _, err := c.Rate(key, minute); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The memory that 10,000 objects take, idle, and all with requests at three proxies.
func BenchmarkMemory(b *testing.B) {
	for name, requests := range map[string]int{"idle": 0, "busy": 70} {
		b.Run(name, func(b *testing.B) {
			heap := func() uint64 {
				runtime.GC()
				var stats runtime.MemStats
				runtime.ReadMemStats(&stats)
				return stats.HeapAlloc
			}
			before := heap()
			c := start([]string{"a"}, envoy, "10.0.1.2")
			for i := range 3 {
				c.Apply("a", all(10000, i*requests))
				c.pass(time.Second)
			}
			b.ReportMetric(float64(heap()-before)/10000, "B/object")
			runtime.KeepAlive(c)
		})
	}
}
