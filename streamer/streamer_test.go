package streamer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/streamer/provider"
	"github.com/turnfold/turnfold/streamer/provider/openaichat"
	"github.com/turnfold/turnfold/streamer/provider/providertest"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
	"github.com/turnfold/turnfold/subjects/jet"
)

func answer(end providertest.End, writes ...[]byte) providertest.Answer {
	return providertest.Answer{Writes: writes, End: end}
}

var tracker = event.Tool{Name: "track", Description: "Find a parcel.", Parameters: `{"type":"object"}`,
	Effect: "read", Repeat: "never", TimeoutMS: 1000, Cap: 2}

// A whole turn of two steps: the events of each attempt are gapless, and the second
// request tells what the first step said and what its call came to.
func TestTwoSteps(t *testing.T) {
	w := newWorld(t)
	p := providertest.Start(t,
		answer(providertest.Clean, says("Let me "), says("look."), calls(0, "c1", "track", `{"id":`), adds(0, `49}`), stops("tool_calls")),
		answer(providertest.Clean, says("It is "), says("in Graz."), stops("stop")))
	w.run(w.streamer(p.URL, nil))
	turn := w.turn("two", func(o *event.TurnOpened) { o.Tools = []event.Tool{tracker} })
	seen := w.untilKind("attempt.finished", 1)
	first := stream(t, seen, turn, 1, 1)
	if got := textIn(first); got != "Let me look." {
		t.Errorf("step 1 says %q", got)
	}
	if f, ok := first[len(first)-1].(*event.AttemptFinished); !ok || f.Usage.Input != 9 || f.Usage.Output != 4 {
		t.Errorf("step 1 ends with %+v", first[len(first)-1])
	}
	call := w.state(turn).Steps[0].Calls[0]
	w.publish(turn, &event.CallSettled{Call: call.ID, Key: call.Key, Outcome: event.OutcomeSucceeded, Result: `{"at":"Graz"}`})
	seen = w.untilKind("attempt.finished", 2)
	if got := textIn(stream(t, seen, turn, 2, 1)); got != "It is in Graz." {
		t.Errorf("step 2 says %q", got)
	}
	s := w.state(turn)
	if s.Status != fold.Completed || s.Text() != "Let me look.It is in Graz." {
		t.Errorf("turn is %s with %q", s.Status, s.Text())
	}
	body := string(p.Requests()[1].Body)
	for _, want := range []string{"Be brief.", "Where is my parcel?", "Let me look.", `"c1"`, `{\"id\":49}`, `{\"at\":\"Graz\"}`} {
		if !strings.Contains(body, want) {
			t.Errorf("request 2 lacks %s:\n%s", want, body)
		}
	}
	if len(p.Requests()) != 2 {
		t.Errorf("%d requests", len(p.Requests()))
	}
}

// The connection breaks after some text: the attempt fails with the next ord, and the
// fold's next command makes the second request, no earlier than it says.
func TestBrokenStream(t *testing.T) {
	w := newWorld(t)
	var broke, asked time.Time
	first := answer(providertest.Reset, says("Your par"))
	first.Before = func(i int) {
		if i == 1 {
			w.untilKind("text.delta", 1) // a reset may overtake what is still on its way
			broke = time.Now()
		}
	}
	second := answer(providertest.Clean, says("It is here."), stops("stop"))
	second.Before = func(i int) {
		if i == 0 {
			asked = time.Now()
		}
	}
	p := providertest.Start(t, first, second)
	w.run(w.streamer(p.URL, nil))
	turn := w.turn("broken", func(o *event.TurnOpened) {
		o.Policy.BackoffBaseMS, o.Policy.BackoffMaxMS = 1200, 1200
	})
	seen := w.untilKind("attempt.finished", 1)
	lost := stream(t, seen, turn, 1, 1)
	f, ok := lost[len(lost)-1].(*event.AttemptFailed)
	if !ok || f.Class != event.Connection || !f.Retryable || textIn(lost) != "Your par" {
		t.Errorf("attempt 1: %q, then %+v", textIn(lost), lost[len(lost)-1])
	}
	if got := textIn(stream(t, seen, turn, 1, 2)); got != "It is here." {
		t.Errorf("attempt 2 says %q", got)
	}
	s := w.state(turn)
	delay := time.Duration(s.Steps[0].Attempts[1].DelayMS) * time.Millisecond
	if took := asked.Sub(broke); took < delay || took > delay+500*time.Millisecond {
		t.Errorf("asked again after %s; the command says %s", took, delay)
	}
}

// A command that comes again, as another delivery or another message, makes no second
// request, neither while the attempt runs nor after it.
func TestCommandTwice(t *testing.T) {
	w := newWorld(t)
	release := make(chan struct{})
	a := answer(providertest.Clean, says("Yes."), stops("stop"))
	a.Before = func(i int) {
		if i == 1 {
			<-release
		}
	}
	p := providertest.Start(t, a)
	w.run(w.streamer(p.URL, func(c *Config) { c.AckWait = 150 * time.Millisecond }))
	turn := w.turn("twice", nil)
	w.untilKind("text.delta", 1)
	s := w.state(turn)
	w.command(w.context(), turn.Partition(testPartitions), turn, commandOf(s))
	time.Sleep(4 * 150 * time.Millisecond) // some AckWaits, which heartbeats must outlive
	close(release)
	w.untilKind("attempt.finished", 1)
	w.command(w.context(), turn.Partition(testPartitions), turn, commandOf(s))
	other := w.turn("other", nil) // behind it on the same consumer, or beside it
	w.until("the other turn", func([]event.Event) bool { s := w.state(other); return s.Over() })
	if n := len(p.Requests()); n != 2 {
		t.Errorf("%d requests for two turns", n)
	}
	stream(t, w.untilKind("attempt.finished", 2), turn, 1, 1)
}

// commandOf rebuilds the command of a turn's first attempt.
func commandOf(s fold.State) feed.Output {
	a := s.Steps[0].Attempts[0]
	return feed.Output{ID: "x", Turn: s.Turn.ID, Step: 1, Attempt: 1, Body: &feed.StepCommand{
		V: 1, In: a.In, Provider: a.Entry.Provider, API: a.Entry.API, Model: a.Entry.Model, Tools: true}}
}

// Two hosts get the same commands at the same time; each turn has one request.
func TestTwoStreamers(t *testing.T) {
	w := newWorld(t)
	p := providertest.Start(t, answer(providertest.Clean, says("Hello."), stops("stop")))
	for _, name := range []string{"host-1", "host-2"} {
		conn := w.connect()
		w.run(w.streamer(p.URL, func(c *Config) { c.Conn, c.Instance = conn, name }))
	}
	w.mu.Lock()
	w.hold = true
	w.mu.Unlock()
	const n = 24
	var open []subjects.Turn
	for i := range n {
		open = append(open, w.turn(fmt.Sprintf("race-%d", i), nil))
	}
	w.untilKind("turn.opened", n)
	for _, turn := range open {
		for range 2 {
			w.command(w.context(), turn.Partition(testPartitions), turn, commandOf(w.state(turn)))
		}
	}
	seen := w.untilKind("attempt.finished", n)
	if got := len(p.Requests()); got != n {
		t.Errorf("%d requests for %d turns", got, n)
	}
	for _, turn := range open {
		if got := textIn(stream(t, seen, turn, 1, 1)); got != "Hello." {
			t.Errorf("%s says %q", turn, got)
			t.Log(kinds(seen))
		}
	}
}

// The log's answer to the opening is lost: the state tells whether it is stored.
func TestUnclearOpening(t *testing.T) {
	for name, c := range map[string]struct {
		store bool
		say   error
	}{
		"stored, no answer":      {true, jet.ErrUnclear},
		"stored, conflict":       {true, jet.ErrConflict},
		"not stored, no answer":  {false, jet.ErrUnclear},
		"not stored, in flight?": {false, jet.ErrConflict},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p := providertest.Start(t, answer(providertest.Clean, says("Hello."), stops("stop")))
			s := w.streamer(p.URL, nil)
			publish, tokens, tries := s.publishAfter, map[string]bool{}, atomic.Int32{}
			s.publishAfter = func(ctx context.Context, subject string, h map[string]string, data []byte, last uint64) (uint64, error) {
				b, _ := event.Decode(data)
				tokens[b.(*event.AttemptStarted).Token] = true
				if tries.Add(1) > 2 {
					return publish(ctx, subject, h, data, last)
				}
				if c.store {
					_, _ = publish(ctx, subject, h, data, last)
				}
				return 0, c.say
			}
			stop := w.run(s)
			turn := w.turn("unclear", nil)
			seen := w.untilKind("attempt.finished", 1)
			stop()
			if got := textIn(stream(t, seen, turn, 1, 1)); got != "Hello." || len(p.Requests()) != 1 || len(tokens) != 1 {
				t.Errorf("says %q after %d requests and %d tokens", got, len(p.Requests()), len(tokens))
			}
			if want := map[bool]int32{true: 1, false: 3}[c.store]; tries.Load() != want {
				t.Errorf("%d tries to open, want %d", tries.Load(), want)
			}
		})
	}
}

// Cancelling a turn closes the provider's socket at once, and the streamer forgets the
// attempt.
func TestWithdraw(t *testing.T) {
	w := newWorld(t)
	p := providertest.Start(t, answer(providertest.Hang, says("Wait")))
	s := w.streamer(p.URL, nil)
	stop := w.run(s)
	turn := w.turn("cancel", nil)
	w.untilKind("text.delta", 1)
	start := time.Now()
	w.publish(turn, &event.TurnCancelled{By: "a person"})
	select {
	case at := <-p.ClientClosed:
		t.Logf("socket closed %s after the cancel", at.Sub(start))
	case <-time.After(testWait):
		t.Fatal("the socket stays open")
	}
	stop()
	if st := w.state(turn); !st.Over() || st.Text() != "Wait" {
		t.Errorf("turn is %s with %q", st.Status, st.Text())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := count(w.seen, "attempt.failed") + count(w.seen, "attempt.lost"); n != 0 {
		t.Errorf("%d ends of a withdrawn attempt:\n%s", n, kinds(w.seen))
	}
}

// A host comes back after a crash: what it left open is lost at once, and what nobody
// has opened is taken at once, although the consumer still counts on the dead process.
func TestRestart(t *testing.T) {
	w := newWorld(t)
	p := providertest.Start(t, answer(providertest.Clean, says("Again."), stops("stop")))
	left := w.turn("left-open", nil)
	w.untilKind("turn.opened", 1)
	w.publish(left, &event.AttemptStarted{Step: 1, Attempt: 1, Token: "old", Provider: "main", API: openaichat.Name,
		Model: "m-small", Instance: "host-1", Incarnation: "before"})
	foreign := w.turn("elsewhere", nil)
	w.publish(foreign, &event.AttemptStarted{Step: 1, Attempt: 1, Token: "other", Provider: "main", API: openaichat.Name,
		Model: "m-small", Instance: "host-2", Incarnation: "before"})
	untaken := w.turn("untaken", nil)
	w.untilKind("turn.opened", 3)
	ctx, cancel := context.WithCancel(context.Background())
	var had atomic.Int32
	for part := range testPartitions { // the dead process had every command, and acknowledged none
		go func() {
			_ = w.conn.Work(ctx, jet.WorkConfig{Stream: subjects.OutputsStream(part), Durable: Durable,
				Filter: subjects.OutLane(part, subjects.LaneStep), AckWait: testWait}, func(jet.Delivery) { had.Add(1) })
		}()
	}
	for deadline := time.Now().Add(testWait); had.Load() < 3 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	cancel()
	start := time.Now()
	w.run(w.streamer(p.URL, nil))
	seen := w.untilKind("attempt.finished", 2)
	if took := time.Since(start); took > testWait/2 {
		t.Errorf("the restart cost %s", took)
	}
	if got := textIn(stream(t, seen, left, 1, 2)); got != "Again." {
		t.Errorf("%s says %q", left, got)
	}
	if got := textIn(stream(t, seen, untaken, 1, 1)); got != "Again." {
		t.Errorf("%s says %q", untaken, got)
	}
	for _, e := range seen {
		if l, ok := e.Body.(*event.AttemptLost); ok && (e.Turn != left || l.Seen != 0 || l.Token != "old" || l.Reason != "streamer restarted") {
			t.Errorf("%s: %+v", e.Turn, l)
		}
	}
	if a := w.state(foreign).Steps[0].Attempts; len(a) != 1 || a[0].Outcome != "" {
		t.Errorf("another host's attempt is %+v", a[0])
	}
}

// A quiet stream shows signs of life, also before its response header; busy ones none.
func TestAlive(t *testing.T) {
	w := newWorld(t)
	held := providertest.Answer{Status: -1, End: providertest.Hang}
	p := providertest.Start(t, held)
	s := w.streamer(p.URL, nil)
	w.run(s)
	start := time.Now()
	turn := w.turn("quiet", func(o *event.TurnOpened) { o.Policy.AliveMS = 60 })
	w.untilKind("attempt.alive", 5)
	if took := time.Since(start); took < 5*60*time.Millisecond {
		t.Errorf("five signs of life in %s", took)
	}
	w.publish(turn, &event.TurnCancelled{})
	<-p.ClientClosed
}

// 2000 pieces while the log's server restarts: all of them, in order.
func TestServerRestart(t *testing.T) {
	w := newWorld(t)
	a := providertest.Answer{End: providertest.Clean}
	var want strings.Builder
	for i := range 2000 {
		piece := fmt.Sprintf("word%d ", i)
		want.WriteString(piece)
		a.Writes = append(a.Writes, says(piece))
	}
	a.Writes = append(a.Writes, stops("stop"))
	restarted := make(chan struct{})
	a.Before = func(i int) {
		switch {
		case i == 600:
			go func() {
				defer close(restarted)
				w.srv.Shutdown()
				w.start()
			}()
		case i == 2000:
			<-restarted
		case i%10 == 0:
			time.Sleep(time.Millisecond)
		}
	}
	p := providertest.Start(t, a)
	w.run(w.streamer(p.URL, nil))
	turn := w.turn("long", nil)
	seen := w.untilKind("attempt.finished", 1)
	bodies := stream(t, seen, turn, 1, 1)
	if got := textIn(bodies); got != want.String() {
		t.Errorf("%d bytes of text, want %d", len(got), want.Len())
	}
	if s := w.state(turn); s.Text() != want.String() || len(p.Requests()) != 1 {
		t.Errorf("turn is %s after %d requests", s.Status, len(p.Requests()))
	}
	t.Logf("2000 pieces in %d events, %d repeated", len(bodies), len(seen)-len(bodies)-2)
}

// Asked to stop, a streamer lets attempts finish for the grace, and declares lost what
// is left, so that another attempt is asked for at once.
func TestStop(t *testing.T) {
	w := newWorld(t)
	slow := answer(providertest.Clean, says("Slowly"), stops("stop"))
	stopping := make(chan struct{})
	slow.Before = func(i int) {
		if i == 1 {
			<-stopping
			time.Sleep(100 * time.Millisecond)
		}
	}
	p := providertest.Start(t, slow, answer(providertest.Hang, says("Never")))
	stop := w.run(w.streamer(p.URL, func(c *Config) { c.Grace = testWait }))
	patient := w.turn("patient", nil)
	w.untilKind("text.delta", 1)
	close(stopping)
	stop()
	if s := w.state(patient); !s.Over() {
		w.until("the patient turn", func([]event.Event) bool { s := w.state(patient); return s.Over() })
	}
	stop = w.run(w.streamer(p.URL, func(c *Config) { c.Grace = 50 * time.Millisecond }))
	cut := w.turn("cut", nil)
	w.untilKind("text.delta", 2)
	start := time.Now()
	stop()
	if took := time.Since(start); took > testWait/2 {
		t.Errorf("stopping took %s", took)
	}
	seen := w.untilKind("attempt.lost", 1)
	if l := seen[len(seen)-1].Body.(*event.AttemptLost); l.Seen != 0 || l.Reason != "streamer stopped" {
		t.Errorf("%+v", l)
	}
	if a := w.state(cut).Steps[0].Attempts; len(a) != 2 || a[0].Outcome != fold.AttemptLost {
		t.Errorf("attempts: %d, the first is %s", len(a), a[0].Outcome)
	}
}

// What is wrong with the configuration is a failed attempt that names what to fix.
func TestMisconfigured(t *testing.T) {
	w := newWorld(t)
	reg := prometheus.NewRegistry()
	s := w.streamer("http://127.0.0.1:1", func(c *Config) {
		c.Registerer = reg
		c.Providers["keyless"] = Provider{API: openaichat.API{}, Endpoint: func() (provider.Endpoint, error) {
			return provider.Endpoint{}, errors.New("MODEL_KEY is not set")
		}}
	})
	w.run(s)
	for i, c := range []struct {
		entry  event.Entry
		class  event.Class
		detail string
	}{
		{event.Entry{Provider: "nobody", API: openaichat.Name}, event.InvalidRequest, "providers.nobody "},
		{event.Entry{Provider: "main", API: "telepathy"}, event.InvalidRequest, "providers.main.api "},
		{event.Entry{Provider: "keyless", API: openaichat.Name}, event.Auth, "providers.keyless.api_key_env: MODEL_KEY is not set"},
	} {
		turn := w.turn(fmt.Sprintf("wrong-%d", i), func(o *event.TurnOpened) { o.Entries = []event.Entry{c.entry} })
		bodies := stream(t, w.untilKind("attempt.failed", i+1), turn, 1, 1)
		f, ok := bodies[0].(*event.AttemptFailed)
		if !ok || f.Class != c.class || f.Retryable || !f.Unsent || !strings.HasPrefix(f.Detail, c.detail) {
			t.Errorf("%v: %+v", c.entry, bodies[0])
		}
	}
	families, err := reg.Gather()
	if err != nil || len(families) == 0 {
		t.Errorf("metrics: %d, %v", len(families), err)
	}
}

// Argument texts of any size arrive whole, in events that the log takes.
func TestLargeArguments(t *testing.T) {
	for _, size := range []int{70 << 10, 400 << 10} {
		w := newWorld(t)
		args := `{"note":"` + strings.Repeat("ä\\n", size/4) + `"}`
		p := providertest.Start(t, answer(providertest.Clean, calls(0, "c1", "track", args), stops("tool_calls")))
		w.run(w.streamer(p.URL, nil))
		turn := w.turn("large", func(o *event.TurnOpened) { o.Tools = []event.Tool{tracker} })
		w.untilKind("attempt.finished", 1)
		if got := w.state(turn).Steps[0].Calls[0].Args; got != args {
			t.Errorf("%d bytes of arguments, want %d", len(got), len(args))
		}
	}
}

// An event that the log does not take fails the attempt in its place, even when the
// stream itself ended well.
func TestUnstorable(t *testing.T) {
	w := newWorld(t)
	ctx := w.context()
	l := newLane(w.conn.NewOrderedWriter(subjects.EventsStream(0)))
	over, end := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); l.run(over) }()
	var spoilt error
	s := newSender(l, subjects.Events(0, subjects.Turn{Tenant: "t", ID: "x"}), event.At{Step: 1, Attempt: 1, Token: "k"},
		time.Hour, func(err error) { spoilt = err })
	s.queue = append(s.queue, &event.TextDelta{Text: "a"},
		&event.OpaqueBlock{Data: string(bytes.Repeat([]byte("x"), 9<<20))}, &event.TextDelta{Text: "b"})
	go s.run(ctx)
	got, err := s.finish(ctx, &event.AttemptFinished{Finish: "stop", Usage: event.Usage{Output: 7}})
	end()
	<-done
	f, ok := got.(*event.AttemptFailed)
	if err != nil || !ok || f.Ord != 1 || !f.Retryable || f.Usage.Output != 7 || !errors.Is(spoilt, errUnstorable) {
		t.Errorf("%+v, %v, %v", got, err, spoilt)
	}
	if err := l.writer.Close(ctx); err != nil {
		t.Error(err)
	}
}

// While the log is slow to say that the text before is stored, pieces gather; the
// first one never waits.
func TestGather(t *testing.T) {
	w := newWorld(t)
	ctx := w.context()
	l := newLane(w.conn.NewOrderedWriter(subjects.EventsStream(0))) // nobody runs it: it never says so
	turn := subjects.Turn{Tenant: "t", ID: "x"}
	s := newSender(l, subjects.Events(0, turn), event.At{Step: 1, Attempt: 1, Token: "k"}, time.Hour, nil)
	l.pressure.most, l.pressure.store = 3*time.Second, 6*time.Second
	gather := l.pressure.gather()
	go s.run(ctx)
	start := time.Now()
	emit := func(text string) {
		if err := s.emit(ctx, &event.TextDelta{Text: text}); err != nil {
			t.Fatal(err)
		}
	}
	emit("first ")
	w.untilKind("text.delta", 1)
	if took := time.Since(start); took > gather {
		t.Errorf("the first piece waited %s", took)
	}
	for range 100 {
		emit("more ")
	}
	if _, err := s.finish(ctx, &event.AttemptFinished{Finish: "stop"}); err != nil {
		t.Fatal(err)
	}
	seen := w.untilKind("attempt.finished", 1)
	want := "first " + strings.Repeat("more ", 100)
	var got string
	for i, e := range seen {
		if d, ok := e.Body.(*event.TextDelta); ok {
			got += d.Text
		}
		if b := e.Body.(event.Streamed); b.Place().Ord != i {
			t.Errorf("ord %d at %d", b.Place().Ord, i)
		}
	}
	if got != want || count(seen, "text.delta") > 10 {
		t.Errorf("%d events, %d bytes of text", len(seen), len(got))
	}
	if err := l.writer.Close(ctx); err != nil {
		t.Error(err)
	}
}

// A put-off command is never early, whatever the clocks of log and host say, and a
// wrong clock costs no more than the delay again.
func TestDelay(t *testing.T) {
	const delay = 10 * time.Second
	now := time.Now()
	for name, c := range map[string]struct {
		delivered uint64
		stored    time.Time
		min, max  time.Duration
	}{
		"new":                        {1, now, delay - time.Second, delay},
		"new, our clock is ahead":    {1, now.Add(-time.Hour), delay - time.Second, delay},
		"new, our clock is behind":   {1, now.Add(time.Hour), delay - time.Second, delay},
		"known to another, waiting":  {2, now.Add(-4 * time.Second), 5 * time.Second, 6 * time.Second},
		"known to another, due":      {2, now.Add(-delay), 0, 0},
		"known to another, from far": {2, now.Add(time.Hour), delay - time.Second, delay},
	} {
		var q dues
		d := jet.Delivery{Msg: jet.Msg{Subject: "s", Seq: 1, Time: c.stored}, Delivered: c.delivered}
		if rest := q.rest(d, delay); rest < c.min || rest > c.max {
			t.Errorf("%s: waits %s, want %s to %s", name, rest, c.min, c.max)
		}
	}
	var q dues
	d := jet.Delivery{Msg: jet.Msg{Subject: "s", Seq: 1, Time: now.Add(time.Hour)}, Delivered: 1}
	rest := q.rest(d, 20*time.Millisecond)
	time.Sleep(rest)
	d.Delivered = 2
	if rest := q.rest(d, 20*time.Millisecond); rest != 0 || len(q.at) != 0 {
		t.Errorf("waits %s more, remembers %d", rest, len(q.at))
	}
}

func TestConfig(t *testing.T) {
	_, err := New(Config{Providers: map[string]Provider{"main": {}}})
	for _, want := range []string{"Conn", "Turns", "Partitions", "Instance", "Incarnation", "main has no API", "main has no Endpoint"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %s in %v", want, err)
		}
	}
}
