package streamer

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/turnfold/turnfold/streamer/provider"
	"github.com/turnfold/turnfold/streamer/provider/openaichat"
	"github.com/turnfold/turnfold/streamer/provider/providertest"
	"github.com/turnfold/turnfold/subjects/event"
)

// BenchmarkLatency measures, for a piece of text, the time from the provider's write to
// the event read from EV, with so many attempts streaming 50 pieces a second each.
func BenchmarkLatency(b *testing.B) {
	for _, attempts := range []int{1, 32, 128} {
		b.Run(fmt.Sprintf("attempts=%d", attempts), func(b *testing.B) {
			w := newWorld(b)
			const pieces = 100
			var mu sync.Mutex
			written := map[string]time.Time{} // by the piece's text
			var servers []*providertest.Server
			for k := range attempts {
				a := providertest.Answer{End: providertest.Clean}
				for i := range pieces {
					a.Writes = append(a.Writes, says(name(k, i)))
				}
				a.Writes = append(a.Writes, stops("stop"))
				a.Before = func(i int) {
					time.Sleep(20 * time.Millisecond)
					mu.Lock()
					written[name(k, i)] = time.Now()
					mu.Unlock()
				}
				servers = append(servers, providertest.Start(b, a))
			}
			s := w.streamer("", func(c *Config) {
				c.Concurrency = 2 * attempts
				for k, p := range servers {
					c.Providers[fmt.Sprintf("p%d", k)] = Provider{API: openaichat.API{},
						Endpoint: func() (provider.Endpoint, error) { return provider.Endpoint{BaseURL: p.URL}, nil }}
				}
			})
			w.run(s)
			b.ResetTimer()
			for k := range attempts {
				w.turn(fmt.Sprintf("bench-%d", k), func(o *event.TurnOpened) { o.Entries[0].Provider = fmt.Sprintf("p%d", k) })
			}
			w.untilKind("attempt.finished", attempts)
			b.StopTimer()
			mu.Lock() // providers may still be closing
			defer mu.Unlock()
			report(b, w, written)
		})
	}
}

func name(attempt, piece int) string { return fmt.Sprintf("%d-%d ", attempt, piece) }

func report(b *testing.B, w *world, written map[string]time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var took []time.Duration
	events := 0
	for i, e := range w.seen {
		d, ok := e.Body.(*event.TextDelta)
		if !ok {
			continue
		}
		events++
		for text := d.Text; text != ""; {
			n := slices.Index([]byte(text), ' ') + 1
			took = append(took, w.when[i].Sub(written[text[:n]]))
			text = text[n:]
		}
	}
	slices.Sort(took)
	ms := func(q float64) float64 { return float64(took[int(q*float64(len(took)-1))].Microseconds()) / 1000 }
	b.ReportMetric(ms(.5), "ms-median")
	b.ReportMetric(ms(.99), "ms-p99")
	b.ReportMetric(float64(len(took))/float64(events), "pieces/event")
}
