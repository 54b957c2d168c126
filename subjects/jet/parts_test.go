package jet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/turnfold/turnfold/subjects"
)

func TestBucket(t *testing.T) {
	_, c := single(t)
	ctx := testContext(t)
	b := c.Bucket(subjects.BucketOpenTurns)
	if keys := must(b.Keys(ctx, ""))(t); len(keys) != 0 {
		t.Errorf("empty bucket has %v", keys)
	}
	type change struct {
		key, val string
		deleted  bool
	}
	changes := make(chan change, 16)
	wctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		done <- b.Watch(wctx, "0.>", func(key string, val []byte, _ uint64, deleted bool) {
			changes <- change{key, string(val), deleted}
		})
	}()
	rev := must(b.Create(ctx, "0.t.x", []byte("1")))(t)
	if _, err := b.Create(ctx, "0.t.x", []byte("2")); !errors.Is(err, ErrConflict) {
		t.Errorf("create again: %v", err)
	}
	// The bucket keeps the last value alone, so each is waited for before the next.
	sees := func(want change) {
		t.Helper()
		select {
		case got := <-changes:
			if got != want {
				t.Errorf("watch sees %+v, want %+v", got, want)
			}
		case <-time.After(testWait):
			t.Fatalf("watch does not see %+v", want)
		}
	}
	sees(change{"0.t.x", "1", false})
	rev2 := must(b.Update(ctx, "0.t.x", []byte("3"), rev))(t)
	if _, err := b.Update(ctx, "0.t.x", []byte("4"), rev); !errors.Is(err, ErrConflict) {
		t.Errorf("update at an old revision: %v", err)
	}
	sees(change{"0.t.x", "3", false})
	val, got, ok, err := b.Get(ctx, "0.t.x")
	if err != nil || !ok || got != rev2 || string(val) != "3" {
		t.Errorf("get: %s %d %t %v", val, got, ok, err)
	}
	must(b.Put(ctx, "1.t.y", nil))(t)
	must(b.Put(ctx, "0.t.z", nil))(t)
	sees(change{"0.t.z", "", false})
	for filter, want := range map[string][]string{"": {"0.t.x", "0.t.z", "1.t.y"}, "0.>": {"0.t.x", "0.t.z"}, "1.t.*": {"1.t.y"}, "2.>": {}} {
		keys := must(b.Keys(ctx, filter))(t)
		slices.Sort(keys)
		if !slices.Equal(keys, want) {
			t.Errorf("keys of %q are %v, want %v", filter, keys, want)
		}
	}
	for range 2 {
		if err := b.Delete(ctx, "0.t.x"); err != nil {
			t.Fatal(err)
		}
	}
	sees(change{"0.t.x", "", true})
	if _, _, ok, err := b.Get(ctx, "0.t.x"); ok || err != nil {
		t.Errorf("deleted key: %t %v", ok, err)
	}
	if keys := must(b.Keys(ctx, "0.>"))(t); !slices.Equal(keys, []string{"0.t.z"}) {
		t.Errorf("keys after delete: %v", keys)
	}
	must(b.Create(ctx, "0.t.x", []byte("5")))(t)
	sees(change{"0.t.x", "5", false})
	stop()
	if err := <-done; err != nil {
		t.Errorf("watch ends with %v", err)
	}
	for _, key := range []string{"", "a..b", ".a", "a.", "a b", "a.*", "ä"} {
		if _, err := b.Put(ctx, key, nil); !errors.Is(err, ErrBadKey) {
			t.Errorf("put %q: %v, want ErrBadKey", key, err)
		}
	}
}

func TestBlob(t *testing.T) {
	_, c := single(t)
	ctx := testContext(t)
	data := bytes.Repeat([]byte("turnfold"), 200_000)
	digest := must(c.PutBlob(ctx, data))(t)
	if again := must(c.PutBlob(ctx, data))(t); again != digest || len(digest) != 64 {
		t.Errorf("digests %s, %s", digest, again)
	}
	if got := must(c.GetBlob(ctx, digest))(t); !bytes.Equal(got, data) {
		t.Error("another content comes back")
	}
	if _, err := c.GetBlob(ctx, "00"); !errors.Is(err, ErrNotFound) {
		t.Errorf("missing blob: %v", err)
	}
	store := must(c.blobs(ctx))(t)
	must(store.PutBytes(ctx, digest, []byte("forged")))(t)
	if _, err := c.GetBlob(ctx, digest); !errors.Is(err, ErrCorrupt) {
		t.Errorf("forged blob: %v", err)
	}
}

func TestEffects(t *testing.T) {
	_, c := single(t)
	ctx := testContext(t)
	if facts, last, err := c.FactsOf(ctx, 0, "k1"); len(facts) != 0 || last != 0 || err != nil {
		t.Errorf("nothing known: %v %d %v", facts, last, err)
	}
	first := must(c.ClaimFact(ctx, 0, "k1", []byte("claim"), 0))(t)
	if _, err := c.ClaimFact(ctx, 0, "k1", []byte("claim2"), 0); !errors.Is(err, ErrConflict) {
		t.Errorf("second claim: %v", err)
	}
	for i := range 3 {
		if err := c.PutBody(ctx, 0, "k1", strconv.Itoa(i), []byte("body"+strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.AppendFact(ctx, 0, "k1", []byte("report")); err != nil {
		t.Fatal(err)
	}
	facts, last, err := c.FactsOf(ctx, 0, "k1")
	if err != nil || len(facts) != 2 || facts[0].Seq != first || string(facts[1].Data) != "report" || last != facts[1].Seq {
		t.Errorf("facts %+v, last %d, %v", facts, last, err)
	}
	for i := range 3 {
		body, ok, err := c.Body(ctx, 0, "k1", strconv.Itoa(i))
		if err != nil || !ok || string(body) != fmt.Sprint("body", i) {
			t.Errorf("body %d: %s %t %v", i, body, ok, err)
		}
	}
	if _, ok, err := c.Body(ctx, 0, "k1", "none"); ok || err != nil {
		t.Errorf("body of no claim: %t %v", ok, err)
	}
}

// startWork works in the background until stop, which waits for its end.
func startWork(t *testing.T, c *Conn, cfg WorkConfig, fn func(Delivery)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Work(ctx, cfg, fn) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("work ends with %v", err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

func TestWork(t *testing.T) {
	h, c := single(t)
	ctx := testContext(t)
	turn := subjects.Turn{Tenant: "t", ID: "x"}
	cfg := WorkConfig{Stream: outStream, Durable: "steps", Filter: subjects.OutLane(0, subjects.LaneStep), AckWait: time.Second, InFlight: 4}
	got := make(chan Delivery, 100)
	stop := startWork(t, c, cfg, func(d Delivery) { got <- d })
	for i := range 3 {
		must(c.Publish(ctx, subjects.Out(0, turn, subjects.LaneStep), nil, []byte(strconv.Itoa(i))))(t)
		must(c.Publish(ctx, subjects.Out(0, turn, subjects.LaneFeed), nil, nil))(t)
	}
	first := <-got // not acknowledged: comes again
	if first.Redelivered || first.Delivered != 1 || first.Seq == 0 {
		t.Errorf("first delivery %+v", first)
	}
	for range 2 {
		if err := (<-got).Ack(); err != nil {
			t.Error(err)
		}
	}
	again := <-got
	if again.Seq != first.Seq || !again.Redelivered || again.Delivered != 2 {
		t.Errorf("want %d again, got %+v", first.Seq, again)
	}
	if err := again.NakAfter(time.Millisecond); err != nil {
		t.Error(err)
	}
	third := <-got
	if third.Seq != first.Seq || third.Delivered != 3 {
		t.Errorf("want %d a third time, got %+v", first.Seq, third)
	}
	h.restart() // the position survives, and so does the worker
	for third = range got {
		if third.Ack() == nil && c.nc.Flush() == nil {
			break
		}
	}
	seq := must(publishAgain(ctx, c, subjects.Out(0, turn, subjects.LaneStep)))(t)
	for d := range got {
		_ = d.Ack() // comes again if it fails
		if d.Seq == seq {
			break
		}
	}
	stop()
	cfg.AckWait, cfg.InFlight = 2*time.Second, 1 // another configuration of the same consumer
	startWork(t, c, cfg, func(d Delivery) { got <- d })
	seq = must(publishAgain(ctx, c, subjects.Out(0, turn, subjects.LaneStep)))(t)
	for d := range got {
		_ = d.Ack() // comes again if it fails
		if d.Seq == seq {
			break
		}
	}
	if err := c.js.DeleteConsumer(ctx, outStream, "steps"); err != nil {
		t.Fatal(err)
	}
	if d := <-got; string(d.Data) != "0" {
		t.Errorf("after deletion all comes again, but first %+v", d)
	}
}

// publishAgain publishes over a server's restart.
func publishAgain(ctx context.Context, c *Conn, subject string) (uint64, error) {
	for {
		seq, err := c.Publish(ctx, subject, nil, nil)
		if !errors.Is(err, ErrUnclear) || sleep(ctx, 10*time.Millisecond) != nil {
			return seq, err
		}
	}
}

func TestWorkIsBounded(t *testing.T) {
	_, c := single(t)
	ctx := testContext(t)
	const inFlight, total = 5, 200
	turn := subjects.Turn{Tenant: "t", ID: "x"}
	for range total {
		must(c.Publish(ctx, subjects.Out(0, turn, subjects.LaneCall), nil, nil))(t)
	}
	var mu sync.Mutex
	running, most := 0, 0
	worked := make(chan struct{}, total)
	startWork(t, c, WorkConfig{Stream: outStream, Durable: "calls", Filter: subjects.OutLane(0, subjects.LaneCall), InFlight: inFlight}, func(d Delivery) {
		mu.Lock()
		running++
		most = max(most, running)
		mu.Unlock()
		if err := d.InProgress(); err != nil {
			t.Error(err)
		}
		if err := d.Ack(); err != nil {
			t.Error(err)
		}
		mu.Lock()
		running--
		mu.Unlock()
		worked <- struct{}{}
	})
	for range total {
		<-worked
	}
	if most > inFlight {
		t.Errorf("%d at a time, want at most %d", most, inFlight)
	}
}

func TestLease(t *testing.T) {
	h, c := single(t)
	ctx := testContext(t)
	const ttl = 2 * time.Second
	a := must(c.AcquireLease(ctx, "p.0", LeaseConfig{Owner: "a", Incarnation: "1", TTL: ttl}))(t)

	other := h.connect()
	renewals := make(chan struct{}, 64)
	stop := must(other.Listen(leaseTouched("p.0"), func(Msg) { renewals <- struct{}{} }))(t)
	defer stop()
	taken := make(chan *Lease, 1)
	challenge := func(cfg LeaseConfig) {
		go func() {
			l, err := other.AcquireLease(ctx, "p.0", cfg)
			if err != nil {
				t.Error(err)
			}
			taken <- l
		}()
	}
	challenge(LeaseConfig{Owner: "b", Incarnation: "1", TTL: ttl})
	select {
	case <-taken:
		t.Fatal("taken from a live holder")
	case <-a.Lost():
		t.Fatal("lost without a cause")
	case <-time.After(2 * ttl): // the thing to see is that nothing happens
	}
	if len(renewals) < 2 {
		t.Errorf("challengers were told of %d renewals in two lives of a lease", len(renewals))
	}
	released := time.Now()
	if err := a.Release(ctx); err != nil {
		t.Fatal(err)
	}
	b := <-taken
	if d := time.Since(released); d > ttl/2 {
		t.Errorf("taking over after a release took %s", d)
	}
	<-a.Lost()

	// The same owner again: its predecessor is dead, and finds out that it lost.
	challenge(LeaseConfig{Owner: "b", Incarnation: "2", TTL: ttl})
	start := time.Now()
	b2 := <-taken
	if d := time.Since(start); d > ttl/2 {
		t.Errorf("taking over from the own predecessor took %s", d)
	}
	<-b.Lost()

	// A holder that falls silent.
	silent := h.connect()
	if err := b2.Release(ctx); err != nil {
		t.Fatal(err)
	}
	d := must(silent.AcquireLease(ctx, "p.0", LeaseConfig{Owner: "d", Incarnation: "1", TTL: ttl}))(t)
	challenge(LeaseConfig{Owner: "e", Incarnation: "1", TTL: ttl})
	start = time.Now()
	silent.nc.Close()
	e := <-taken
	if took := time.Since(start); took < ttl/2 || took > 3*ttl {
		t.Errorf("taking over from a silent holder took %s, want about %s", took, ttl)
	}
	select {
	case <-d.Lost():
	default:
		t.Error("the silent holder believes in its lease after another has taken it")
	}
	if err := e.Release(ctx); err != nil {
		t.Error(err)
	}
}
