package keystore

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/turnfold/turnfold/subjects/effect"
)

// Settled is a report that is on the shared logs.
type Settled struct {
	Key, Token string
	Outcome    effect.Outcome // as it was published
}

// MarkSettled notes that reports are on the shared logs, and forgets their commands. If
// an outcome has become known in the meantime that is still to be published, nothing
// changes for that one. Marks, by partition, are stored with them: none of the notes
// survives a power cut without the mark that says where the log had ended.
//
// It alone is not synced: if a note is lost, the report is published once more, which
// changes nothing, and the hot path has one sync less.
func (s *Store) MarkSettled(ctx context.Context, done []Settled, marks map[int]Mark) error {
	if err := s.enter(ctx); err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	defer s.leave()
	free, unlock, busy := s.lockFree(done)
	err := s.markSettled(free, marks)
	unlock()
	for i := 0; i < len(busy) && err == nil; i++ {
		g := s.guard(busy[i].Key)
		g.Lock()
		err = s.markSettled(busy[i:i+1], nil)
		g.Unlock()
	}
	if err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	return nil
}

// markSettled is for whoever holds the locks of the keys.
func (s *Store) markSettled(done []Settled, marks map[int]Mark) error {
	b := s.db.NewBatch()
	defer b.Close()
	for p, m := range marks {
		set(b, markRow(p), m.value())
	}
	for _, d := range done {
		r, ok, err := s.claim(s.guard(d.Key), d.Key, d.Token)
		if err != nil {
			return err
		}
		if !ok || r.outcome == "" {
			return fmt.Errorf("%s of %s: %w", d.Token, d.Key, ErrNotReported)
		}
		if r.outcome == d.Outcome {
			del(b, pendingRow(d.Key, d.Token))
		}
	}
	if b.Empty() {
		return nil
	}
	if err := b.Commit(pebble.NoSync); err != nil {
		return err
	}
	for _, d := range done {
		g := s.guard(d.Key)
		if id := (claimID{d.Key, d.Token}); g.open[id].outcome == d.Outcome {
			delete(g.open, id)
		}
	}
	return nil
}

// lockFree takes the locks of those keys that nobody else works on at the moment. It waits
// for none: the others would wait as long for all that are taken.
func (s *Store) lockFree(done []Settled) (free []Settled, unlock func(), busy []Settled) {
	held := map[uint64]bool{}
	for _, d := range done {
		i := s.stripeOf(d.Key)
		if !held[i] && !s.stripe[i].TryLock() {
			busy = append(busy, d)
			continue
		}
		held[i] = true
		free = append(free, d)
	}
	return free, func() {
		for i := range held {
			s.stripe[i].Unlock()
		}
	}, busy
}
