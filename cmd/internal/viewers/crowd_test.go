package viewers

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

const (
	crowd       = 1000
	crowdFirst  = 50 // there before anything is weighed: what the first bring into memory is kept once
	crowdTurns  = 10
	crowdFor    = 8 * time.Second
	lateMax     = 50 * time.Millisecond
	viewerBytes = 64 << 10
)

// late gathers how late words are.
type lateness struct {
	mu   sync.Mutex
	list []time.Duration
}

func (l *lateness) add(d time.Duration) {
	l.mu.Lock()
	l.list = append(l.list, d)
	l.mu.Unlock()
}

// take gives the number of words, their median and their 99th percentile, and forgets.
func (l *lateness) take() (n int, p50, p99 time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.list
	l.list = nil
	if len(list) == 0 {
		return 0, 0, 0
	}
	slices.Sort(list)
	return len(list), list[len(list)/2], list[len(list)*99/100]
}

// A thousand viewers of ten live turns: each sees a word soon after the model said it,
// costs little memory, and no consumer of the log.
func TestCrowd(t *testing.T) {
	w := newWorld(t, 200*time.Millisecond, "")
	for n := range crowdTurns {
		w.open(t, fmt.Sprintf("live-%d", n))
	}
	var seen lateness
	t.Log(w.memory(t))
	one := w.dial(t)
	go watch(one, "live-0", seen.add)
	time.Sleep(2 * time.Second)
	_, alone50, alone99 := seen.take()
	var wg sync.WaitGroup
	join := func(n int) {
		for n := range n {
			c := w.dial(t)
			t.Cleanup(func() { _ = c.Close() })                                            // the server has ended by then
			time.Sleep(2 * time.Millisecond)                                               // people do not come within the same moment
			wg.Go(func() { _ = watch(c, fmt.Sprintf("live-%d", n%crowdTurns), seen.add) }) // ends with the connection
		}
	}
	join(crowdFirst)
	time.Sleep(2 * time.Second)
	before, err := w.p.ResidentBytes()
	if err != nil {
		t.Fatal(err)
	}
	consumers := w.consumers(t)
	join(crowd)
	time.Sleep(3 * time.Second) // what was said before they came is no measure
	seen.take()
	time.Sleep(crowdFor)
	n, p50, p99 := seen.take()
	after, err := w.p.ResidentBytes()
	if err != nil {
		t.Fatal(err)
	}
	each := (after - before) / crowd
	t.Log(w.memory(t))
	now := w.consumers(t)
	t.Logf("%d viewers got %d words: p50 %s, p99 %s (one viewer alone: %s, %s); %d bytes a viewer; %d consumers before, %d after",
		crowd, n, p50, p99, alone50, alone99, each, consumers, now)
	if want := crowd * int(crowdFor/(400*time.Millisecond)); n < want {
		t.Errorf("%d words; at least %d were expected", n, want)
	}
	switch load, busy := busy(); {
	case !raceFree:
		t.Logf("NOT JUDGED: p99 is %s, and a viewer costs %d bytes, with the race detector", p99, each)
	case busy:
		t.Logf("NOT JUDGED: p99 is %s, on a host with a load of %.1f", p99, load)
	case p99 > lateMax:
		t.Errorf("p99 is %s, more than %s", p99, lateMax)
	}
	if raceFree && each > viewerBytes {
		t.Errorf("a viewer costs %d bytes, more than %d", each, viewerBytes)
	}
	if now > consumers {
		t.Errorf("%d consumers; there were %d before anybody watched", now, consumers)
	}
	w.p.Kill()
	wg.Wait()
}
