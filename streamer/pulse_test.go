package streamer

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/jet"
)

// Every command at work is shown to be worked on, again and again, whatever their number,
// and none after its end.
func TestPulse(t *testing.T) {
	const commands = 3*pulseGroups + 1
	w := newWorld(t)
	ctx, stop := context.WithCancel(w.context())
	var mu sync.Mutex
	beats := map[string]int{} // by where a delivery is answered
	deaf, err := w.connect().Listen("$JS.ACK."+subjects.OutputsStream(0)+".pulse.>", func(m jet.Msg) {
		if string(m.Data) == "+WPI" {
			mu.Lock()
			defer mu.Unlock()
			beats[m.Subject]++
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer deaf()
	least := func() int { // beats of the command that has had the fewest
		mu.Lock()
		defer mu.Unlock()
		if len(beats) < commands {
			return 0
		}
		n := 0
		for _, b := range beats {
			if n == 0 || b < n {
				n = b
			}
		}
		return n
	}
	until := func(what string, holds func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("no end of waiting: %s", what)
			}
		}
	}
	for i := range commands {
		turn := subjects.Turn{Tenant: "t", ID: fmt.Sprint("x", i)}
		if _, err := w.conn.Publish(ctx, subjects.Out(0, turn, subjects.LaneStep), nil, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	var p pulse
	ends := make(chan func(), commands)
	var work sync.WaitGroup
	work.Go(func() { p.run(ctx, pulseGroups*time.Millisecond) })
	work.Go(func() {
		if err := w.conn.Work(ctx, jet.WorkConfig{Stream: subjects.OutputsStream(0), Durable: "pulse", InFlight: commands,
			Filter: subjects.OutLane(0, subjects.LaneStep)}, func(d jet.Delivery) { ends <- p.keep(d) }); err != nil {
			t.Error(err)
		}
	})
	until("three beats of each", func() bool { return least() >= 3 })
	for range commands - 1 {
		(<-ends)()
	}
	mu.Lock()
	before := map[string]int{}
	for at, n := range beats {
		before[at] = n
	}
	mu.Unlock()
	until("the last one goes on", func() bool {
		mu.Lock()
		defer mu.Unlock()
		for at, n := range beats {
			if n >= before[at]+10 {
				return true
			}
		}
		return false
	})
	mu.Lock()
	going := 0
	for at, n := range beats {
		if n > before[at]+5 { // those that were under way have long come
			going++
		}
	}
	mu.Unlock()
	if going != 1 {
		t.Errorf("%d commands are kept, want the one that has not ended", going)
	}
	stop()
	work.Wait()
}
