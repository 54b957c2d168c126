package executor

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

func noLimit(string) int { return 0 }

// A tenant that floods an executor delays another tenant's call by one place, not by
// its whole flood.
func TestFloodingTenantHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeats(2, 0, noLimit)
		var mu sync.Mutex
		var order []string
		ctx := context.Background()
		want := func(tenant string) {
			go func() {
				if _, got := s.take(ctx, tenant, "x", nil); got {
					mu.Lock()
					order = append(order, tenant)
					mu.Unlock()
				}
			}()
			synctest.Wait()
		}
		for range 50 {
			want("flood")
		}
		for range 3 {
			want("quiet")
		}
		want("third")
		for range 8 {
			s.back("flood", "x") // of whom does not matter to the order
			s.of("flood").taken = 9
			synctest.Wait()
		}
		got := order[2:10]
		if got[0] != "flood" || slices.Index(got, "quiet") > 1 || slices.Index(got, "third") > 2 {
			t.Errorf("places went to %v", got)
		}
		n := 0
		for _, who := range got {
			if who == "quiet" {
				n++
			}
		}
		if n != 3 {
			t.Errorf("the quiet tenant got %d of its 3 places: %v", n, got)
		}
		mu.Lock()
		left := len(s.of("flood").waiting)
		mu.Unlock()
		for range left {
			s.back("flood", "x")
			s.of("flood").taken = 9
			synctest.Wait()
		}
	})
}

// Whatever comes and goes, no limit is passed, no place is lost, and nobody waits while
// there is a place for them.
func TestSeatsKeepTheirLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := map[string]int{"a": 1, "b": 2, "c": 0}
		all, each := rapid.IntRange(1, 5).Draw(t, "all"), rapid.IntRange(0, 3).Draw(t, "each")
		s := newSeats(all, each, func(tool string) int { return limits[tool] })
		type wish struct {
			tenant, tool string
			cancel       context.CancelFunc
			got          chan bool
		}
		var open []*wish
		var held []*wish
		settle := func() {
			for i := 0; i < len(open); i++ {
				select {
				case got := <-open[i].got:
					if got {
						held = append(held, open[i])
					}
					open = slices.Delete(open, i, i+1)
					i--
				default:
				}
			}
		}
		for range rapid.IntRange(1, 40).Draw(t, "acts") {
			switch act := rapid.IntRange(0, 3).Draw(t, "act"); {
			case act == 0 && len(held) > 0:
				w := held[0]
				held = held[1:]
				s.back(w.tenant, w.tool)
			case act == 1 && len(open) > 0:
				w := open[rapid.IntRange(0, len(open)-1).Draw(t, "which")]
				w.cancel()
				if <-w.got {
					held = append(held, w)
				}
				open = slices.DeleteFunc(open, func(o *wish) bool { return o == w })
			default:
				ctx, cancel := context.WithCancel(context.Background())
				w := &wish{fmt.Sprint("t", rapid.IntRange(0, 2).Draw(t, "tenant")), rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "tool"), cancel, make(chan bool, 1)}
				open = append(open, w)
				entered := make(chan struct{})
				go func() {
					close(entered)
					_, got := s.take(ctx, w.tenant, w.tool, nil)
					w.got <- got
				}()
				<-entered
			}
			settle()
			s.mu.Lock()
			if s.taken > all {
				t.Fatalf("%d of %d places are taken", s.taken, all)
			}
			for tool, n := range s.tools {
				if limits[tool] > 0 && n > limits[tool] {
					t.Fatalf("tool %s has %d places", tool, n)
				}
			}
			for name, x := range s.tenants {
				if each > 0 && x.taken > each {
					t.Fatalf("tenant %s has %d places", name, x.taken)
				}
				for _, w := range x.waiting {
					if s.taken < all && s.fits(x, w) {
						t.Fatalf("%s waits for %s though there is a place", name, w.tool)
					}
				}
			}
			s.mu.Unlock()
		}
		for _, w := range open {
			w.cancel()
			if <-w.got {
				held = append(held, w)
			}
		}
		for _, w := range held {
			s.back(w.tenant, w.tool)
		}
		if s.taken != 0 || len(s.tenants) != 0 || len(s.tools) != 0 || len(s.order) != 0 {
			t.Fatalf("left: %d taken, %v, %v, %v", s.taken, s.tenants, s.tools, s.order)
		}
	})
}
