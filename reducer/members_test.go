package reducer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/turnfold/turnfold/reducer"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/jet"
)

const (
	memberTTL = time.Second
	// plannedMax and crashedMax are what docs/cluster.md promises of a take-over.
	plannedMax = 300 * time.Millisecond
	crashedMax = memberTTL + time.Second
)

// fleet is reducers that share partitions, each with a connection of its own.
type fleet struct {
	*world
	members map[string]*member
}

type member struct {
	reducer *reducer.Reducer
	conn    *jet.Conn
	stop    context.CancelFunc
	done    chan error
}

func newFleet(t *testing.T, names ...string) *fleet {
	f := &fleet{newWorld(t), map[string]*member{}}
	for _, name := range names {
		f.add(name)
	}
	return f
}

func (f *fleet) add(name string) {
	f.t.Helper()
	conn, err := jet.Connect(context.Background(), jet.Config{URL: f.srv.URL(), User: f.srv.User(), Password: f.srv.Password(), Name: name, Log: zerolog.Nop()})
	if err != nil {
		f.t.Fatal(err)
	}
	f.n++
	m := &member{conn: conn, done: make(chan error, 1)}
	ms, err := conn.Join(jet.MemberConfig{Role: "reducer", Instance: name, Incarnation: fmt.Sprint(f.n), TTL: memberTTL})
	if err != nil {
		f.t.Fatal(err)
	}
	m.reducer, err = reducer.New(reducer.Config{Conn: conn, Partitions: partitions, Instance: name,
		Incarnation: fmt.Sprint(f.n), LeaseTTL: memberTTL, Members: ms, Log: zerolog.Nop()})
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.stop = cancel
	go func() { m.done <- m.reducer.Run(ctx) }()
	f.members[name] = m
	f.t.Cleanup(func() {
		cancel()
		<-m.done
		end, done := context.WithTimeout(context.Background(), time.Second)
		defer done()
		_ = conn.Close(end)
	})
}

// until waits for each member to fold so many partitions.
func (f *fleet) until(want map[string]int) {
	f.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		got := map[string]int{}
		for name := range want {
			got[name] = f.members[name].reducer.Owned()
		}
		if fmt.Sprint(got) == fmt.Sprint(want) {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("partitions folded: %v, want %v", got, want)
		}
	}
}

// answered measures how long a turn that is opened in each partition waits for its
// first output.
func (f *fleet) answered(prefix string) time.Duration {
	f.t.Helper()
	began := time.Now()
	for p := range partitions {
		for n := 0; ; n++ {
			t := turn(fmt.Sprintf("%s-%d", prefix, n))
			if t.Partition(partitions) == p {
				f.open(t)
				f.feed(t, "turn_accepted")
				break
			}
		}
	}
	return time.Since(began)
}

// TestPartitionsAreShared: reducers that come take their share, those that go leave
// theirs, and nothing waits for a lease when the end was planned.
func TestPartitionsAreShared(t *testing.T) {
	f := newFleet(t, "a")
	f.until(map[string]int{"a": partitions})
	f.answered("alone")
	best := time.Hour // of a few: a machine that is busy with other things shows in the rest
	for round := 0; round < 4 && best > plannedMax; round++ {
		b := fmt.Sprintf("b%d", round)
		f.add(b)
		f.until(map[string]int{"a": partitions / 2, b: partitions / 2})
		f.answered("shared" + b)
		f.members[b].stop()
		took := f.answered("planned" + b)
		t.Logf("planned stop: every partition answers after %s", took)
		best = min(best, took)
		f.until(map[string]int{"a": partitions})
	}
	if best > plannedMax {
		t.Errorf("planned stop: took %s, more than %s", best, plannedMax)
	}
}

// TestOwnerKilled: the partitions of an owner that vanishes without a word have
// another within the lease and a second.
func TestOwnerKilled(t *testing.T) {
	f := newFleet(t, "a")
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	best := time.Hour // of a few, as above
	for round := 0; round < 4 && best > crashedMax; round++ {
		b := fmt.Sprintf("b%d", round)
		f.add(b)
		f.until(map[string]int{"a": partitions / 2, b: partitions / 2})
		_ = f.members[b].conn.Close(gone) // from here on nothing of it reaches the log
		took := f.answered("killed" + b)
		t.Logf("owner killed: every partition answers after %s, lease %s", took, memberTTL)
		if took < memberTTL/2 {
			t.Errorf("owner killed: its lease of %s was over after %s", memberTTL, took)
		}
		best = min(best, took)
		f.until(map[string]int{"a": partitions})
	}
	if best > crashedMax {
		t.Errorf("owner killed: took %s, want about the lease of %s and at most %s", best, memberTTL, crashedMax)
	}
	val, _, ok, err := f.conn.Bucket(subjects.BucketLeases).Get(context.Background(), "partition.0")
	if err != nil || !ok {
		t.Errorf("lease of partition 0: %q %v %v", val, ok, err)
	}
}
