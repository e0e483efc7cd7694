package figures

import (
	"cmp"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/loadreport"
)

// A report is a message that is taken in.
type report struct {
	*Figures
	in          *proxy // the interceptor that sends it
	now         time.Duration
	first, base bool // the first message of the stream; the first since the interceptor came
	reported    []*source
}

func (r *report) apply(m loadreport.Message) {
	r.in.connected, r.in.greeted = true, true
	if r.first {
		r.begin(m)
	}
	for _, s := range m.Sources {
		r.source(s)
	}
	// At the end, so that two Sources of a proxy are taken for the same time.
	r.in.reported(nil, r.now)
	for _, s := range r.reported {
		s.proxy.reported(s, r.now)
	}
}

// begin ends the sources of a stream before that are not in the first message.
func (r *report) begin(m loadreport.Message) {
	here := make(map[string]bool, len(m.Sources))
	for _, s := range m.Sources {
		here[s.ID] = true
	}
	for _, s := range r.sources {
		if s.via == r.in && !here[s.id] {
			r.end(s)
		}
	}
}

func (r *report) source(m loadreport.Source) {
	s, known := r.sources[m.ID], true
	if s == nil {
		if m.Ended {
			return
		}
		s, known = r.newSource(m), false
	}
	s.via, s.without, s.replaced = r.in, m.WithoutLoadReports, false
	if !m.WithoutLoadReports && (!m.Ended || len(m.Objects) > 0) {
		r.requests(s, known, m.Objects)
	}
	if m.Ended {
		r.end(s)
	}
}

func (r *report) newSource(m loadreport.Source) *source {
	p := r.in
	if m.Address != "" {
		p = r.proxy(proxyKey{false, cmp.Or(m.Pod, m.Address)}, r.now)
	}
	s := &source{id: m.ID, proxy: p, parts: make(map[*object]*part)}
	p.sources = append(p.sources, s)
	r.sources[m.ID] = s
	return s
}

// requests takes in what a source says of its objects.
func (r *report) requests(s *source, known bool, objects []loadreport.Object) {
	from, counts := s.proxy.last, known || !r.base
	if !known {
		switch {
		case r.base:
			from = r.now
		case !s.proxy.interceptor:
			from = max(from, r.now-reconnect-s.proxy.interval)
		}
		s.proxy.lose(from)
		s.unsettled = r.base && !s.proxy.interceptor
	} else if s.unsettled {
		s.unsettled, counts = false, false
		s.proxy.lose(r.now)
	}
	before, counted := s.parts, false
	if r.first {
		s.parts = make(map[*object]*part, len(objects))
	}
	for _, m := range objects {
		o := r.object(Key{Namespace: m.Namespace, Name: m.Name})
		p := before[o]
		if m.Gone {
			o.drop(p)
			delete(before, o)
			delete(s.parts, o)
			continue
		}
		if p == nil {
			p = &part{source: s}
			o.parts = append(o.parts, p)
			before[o] = p
		}
		s.parts[o] = p
		held := p.held
		if n := p.update(m); n != 0 && counts {
			o.add(s.proxy, from, r.now, n)
			counted = true
		}
		if held == 0 && p.held > 0 {
			o.notify()
		}
	}
	if r.first {
		for o, p := range before {
			if s.parts[o] != p {
				o.drop(p)
			}
		}
	}
	if !known || !r.first || counted || !counts {
		r.reported = append(r.reported, s)
	} // else it is as the stream before has told
}
