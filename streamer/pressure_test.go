package streamer

import (
	"strings"
	"testing"
	"time"

	"github.com/turnfold/turnfold/streamer/provider/providertest"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
)

// A word about lateness counts at once, loses its weight with time and not with the
// first better word, and has its bounds.
func TestPressure(t *testing.T) {
	var p pressure
	now := time.Now()
	at := func(after, want time.Duration) {
		t.Helper()
		if got := p.hold(now.Add(after)); got != want {
			t.Errorf("%s after the word: holds %s, want %s", after, got, want)
		}
	}
	at(0, 0)
	p.hear(400*time.Millisecond, now)
	at(0, 400*time.Millisecond)
	at(pressureHalves, 200*time.Millisecond)
	at(20*pressureHalves, 0)
	p.hear(0, now.Add(pressureHalves))
	at(pressureHalves, 200*time.Millisecond)
	at(2*pressureHalves, 100*time.Millisecond)
	p.hear(time.Hour, now.Add(2*pressureHalves))
	at(2*pressureHalves, gatherMax)
	at(-time.Hour, gatherMax) // a word from a moment that this goroutine has not seen yet
	if got := p.gather(); got != gatherMin {
		t.Errorf("a log that keeps up: gathers %s, want %s", got, gatherMin)
	}
	for range 100 {
		p.stored(400 * time.Millisecond)
	}
	if got := p.gather(); got < 190*time.Millisecond || got > 200*time.Millisecond {
		t.Errorf("a log that takes 400ms: gathers %s, want half of that", got)
	}
	for range 100 {
		p.stored(time.Hour)
	}
	if got := p.gather(); got != gatherMax {
		t.Errorf("a log that is away: gathers %s, want %s", got, gatherMax)
	}
}

// While the owner says that it is late, an attempt's text comes in few events, although
// the log stores at once and the provider goes on; the first piece waits for nobody, and
// nothing is lost.
func TestLagSlowsStreams(t *testing.T) {
	w := newWorld(t)
	const pieces = 60
	a := providertest.Answer{End: providertest.Clean}
	for i := range pieces {
		a.Writes = append(a.Writes, says(name(0, i)))
	}
	a.Writes = append(a.Writes, stops("stop"))
	conn := w.connect()
	told := func() {
		for p := range testPartitions {
			if err := conn.Broadcast(subjects.LagSubject(p), []byte(`{"v":1,"lag_ms":60000}`)); err != nil {
				t.Error(err)
			}
		}
	}
	a.Before = func(i int) {
		told() // as often as an owner that stays late
		if i > 0 {
			// The piece before could have been stored many times over.
			time.Sleep(5 * time.Millisecond)
		}
	}
	p := providertest.Start(t, a)
	w.run(w.streamer(p.URL, nil))
	for range 2 { // words that are none change nothing
		_ = conn.Broadcast(subjects.LagSubject(0), []byte(`{"v":1,"lag_ms":-5}`))
		_ = conn.Broadcast(subjects.LagSubject(0), []byte(`late`))
	}
	w.turn("late", nil)
	var text strings.Builder
	events := 0
	for _, e := range w.untilKind("attempt.finished", 1) {
		if d, ok := e.Body.(*event.TextDelta); ok {
			text.WriteString(d.Text)
			events++
		}
	}
	var want strings.Builder
	for i := range pieces {
		want.WriteString(name(0, i))
	}
	// The pieces take a third of a second at least, each apart from the next by several
	// answers of an idle log; while the owner is late, events are up to a second apart.
	if text.String() != want.String() || events > pieces/4 {
		t.Errorf("%d pieces came in %d events, as %q", pieces, events, text.String())
	}
}
