package executor

import (
	"context"
	"slices"
	"sync"
)

// seats are the places for running effects: so many in all, so many of one tenant, so
// many of one tool. A place that is free goes to the tenants that wait, in turn, so that
// one tenant with a thousand calls holds up another by no more than one place at a time.
// Within a tenant, calls go in order, past those whose tool has no place.
type seats struct {
	all, perTenant int                   // perTenant 0: no limit
	perTool        func(tool string) int // 0: no limit

	mu      sync.Mutex
	taken   int
	tools   map[string]int
	tenants map[string]*tenantSeats
	order   []string // tenants that wait, the next one first
}

// tenantSeats is one tenant that has places, or waits for some.
type tenantSeats struct {
	taken   int
	waiting []*seat
}

// seat is a wish for a place.
type seat struct {
	tenant, tool string
	given        chan struct{} // closed when it has one
}

func newSeats(all, perTenant int, perTool func(string) int) *seats {
	return &seats{all: all, perTenant: perTenant, perTool: perTool, tools: map[string]int{}, tenants: map[string]*tenantSeats{}}
}

// take waits for a place, until ctx ends or the call is withdrawn. It says whether it
// had to wait, and whether it got one.
func (s *seats) take(ctx context.Context, tenant, tool string, withdrawn <-chan struct{}) (waited, got bool) {
	w := &seat{tenant: tenant, tool: tool, given: make(chan struct{})}
	s.mu.Lock()
	t := s.of(tenant)
	if len(t.waiting) == 0 {
		s.order = append(s.order, tenant)
	}
	t.waiting = append(t.waiting, w)
	s.deal()
	s.mu.Unlock()
	select {
	case <-w.given:
		return false, true
	default:
	}
	select {
	case <-w.given:
		return true, true
	case <-withdrawn:
	case <-ctx.Done():
	}
	return true, s.leave(w)
}

// leave gives a wish up; it reports whether the place came first.
func (s *seats) leave(w *seat) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.of(w.tenant)
	at := slices.Index(t.waiting, w)
	if at < 0 {
		return true
	}
	t.waiting = slices.Delete(t.waiting, at, at+1)
	if len(t.waiting) == 0 {
		s.order = slices.DeleteFunc(s.order, func(n string) bool { return n == w.tenant })
	}
	s.forget(w.tenant)
	return false
}

// back returns a place.
func (s *seats) back(tenant, tool string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	s.tenants[tenant].taken--
	if s.tools[tool]--; s.tools[tool] == 0 {
		delete(s.tools, tool)
	}
	s.deal()
	s.forget(tenant)
}

// deal hands out what is free. A tenant that got a place goes to the end of the row; one
// whose calls all wait for something else keeps its turn.
func (s *seats) deal() {
	for i := 0; s.taken < s.all && i < len(s.order); {
		name := s.order[i]
		t := s.tenants[name]
		at := slices.IndexFunc(t.waiting, func(w *seat) bool { return s.fits(t, w) })
		if at < 0 {
			i++
			continue
		}
		w := t.waiting[at]
		t.waiting = slices.Delete(t.waiting, at, at+1)
		s.taken++
		t.taken++
		s.tools[w.tool]++
		close(w.given)
		s.order = slices.Delete(s.order, i, i+1)
		if len(t.waiting) > 0 {
			s.order = append(s.order, name)
		}
	}
}

func (s *seats) fits(t *tenantSeats, w *seat) bool {
	if s.perTenant > 0 && t.taken >= s.perTenant {
		return false
	}
	limit := s.perTool(w.tool)
	return limit <= 0 || s.tools[w.tool] < limit
}

func (s *seats) of(tenant string) *tenantSeats {
	t, ok := s.tenants[tenant]
	if !ok {
		t = &tenantSeats{}
		s.tenants[tenant] = t
	}
	return t
}

func (s *seats) forget(tenant string) {
	if t := s.tenants[tenant]; t != nil && t.taken == 0 && len(t.waiting) == 0 {
		delete(s.tenants, tenant)
	}
}

// crowded reports whether a tenant has so many calls here already that more of them
// would keep other tenants' from being seen at all.
func (d *desk) crowded(tenant string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.present[tenant] >= d.presentMax
}
