package keystore

import (
	"maps"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/turnfold/turnfold/subjects/effect"
)

func reported(t testing.TB, s *Store, n int) Settled {
	t.Helper()
	must(t, s.Intent(ctx, Intent{Key: keyOf(n), Token: tokenOf(n), Call: "c", Command: []byte("x"), Drawn: true}))
	must(t, s.Report(ctx, Report{Key: keyOf(n), Token: tokenOf(n), Outcome: effect.Succeeded, Body: []byte("b")}))
	return Settled{keyOf(n), tokenOf(n), effect.Succeeded}
}

// A key that somebody works on does not keep the others from being noted, nor is it
// forgotten.
func TestSettledWhileBusy(t *testing.T) {
	s := open(t, "d", vfs.NewMem())
	n := 2 // stripes are drawn anew in each process
	for s.guard(keyOf(n)) == s.guard(keyOf(1)) {
		n++
	}
	busy, free := reported(t, s, 1), reported(t, s, n)
	s.guard(busy.Key).Lock()
	done := make(chan error, 1)
	go func() { done <- s.MarkSettled(ctx, []Settled{busy, free}, nil) }()
	open := func() map[string]bool {
		out := map[string]bool{}
		must(t, each(s.db, []byte{rowPending}, func(row, value []byte) error {
			p, err := splitPending(row, value)
			out[p.key] = true
			return err
		}))
		return out
	}
	for until := time.Now().Add(time.Minute); open()[free.Key]; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the free key waits for the busy one")
		}
	}
	if !open()[busy.Key] {
		t.Error("noted while somebody worked on it")
	}
	s.guard(busy.Key).Unlock()
	must(t, <-done)
	if left := open(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// Whatever a power cut leaves of the notes, it leaves their mark as well.
func TestSettledWithMarks(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s := open(t, "d", fs)
	marks := map[int]Mark{3: {Seq: 7}}
	must(t, s.MarkSettled(ctx, []Settled{reported(t, s, 1), reported(t, s, 2)}, marks))
	for _, synced := range []bool{false, true} {
		if synced {
			must(t, s.NotRun(ctx, "k", "c")) // any write that is synced takes the ones before along
		}
		after := open(t, "d", fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 0}))
		got, err := after.Marks()
		must(t, err)
		outbox, err := after.Outbox()
		must(t, err)
		if maps.Equal(got, marks) != (len(outbox) == 0) || synced != (len(outbox) == 0) || !synced && len(outbox) != 2 {
			t.Errorf("synced %v: marks %v, outbox of %d", synced, got, len(outbox))
		}
	}
}
