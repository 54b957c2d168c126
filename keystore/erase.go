package keystore

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Call is a call, as its claims name it, under an effect key.
type Call struct{ Key, Name string }

const (
	// wipeRounds is more than the library keeps of used logs to write over.
	wipeRounds = 64
	wipePause  = 20 * time.Millisecond
)

// Erase forgets what the calls' claims came to in words: results, details of failures,
// and the commands with their arguments. What happened stays: claims, outcomes, and
// digests of results, by which an effect is not made again. When it returns nil, no
// file of the store has a byte of what was forgotten: neither a table nor a log.
func (s *Store) Erase(ctx context.Context, calls []Call) error {
	for _, c := range calls {
		if c.Key == "" || c.Name == "" {
			return fmt.Errorf("erase %s: %w: needs key and call", c.Key, ErrInvalid)
		}
		if err := s.write(ctx, c.Key, "erase "+c.Name, func(to *change) error { return s.strip(to, c) }); err != nil {
			return err
		}
	}
	if len(calls) == 0 {
		return nil
	}
	return s.wipe(ctx, calls)
}

// Knows reports whether the store has anything on a call.
func (s *Store) Knows(key, call string) (bool, error) {
	found := false
	err := s.eachRow(key, func(row, value []byte) error {
		_, name, r, err := splitRow(row, value)
		found = found || r.call == call || r.call == "" && name == call
		return err
	})
	return found, err
}

// strip rewrites the rows of a call's claims without words.
func (s *Store) strip(to *change, c Call) error {
	b := to.batch
	to.again = map[claimID]record{}
	err := each(s.db, factRow(c.Key), func(row, value []byte) error {
		key, token, r, err := splitRow(row, value)
		if err != nil || r.call != c.Name {
			return err
		}
		if r.place == bodyInline || r.place == bodyRowed {
			r.place, r.body = bodyElsewhere, nil
		}
		r.detail = ""
		set(b, tokenRow(key, token), r.encode())
		to.again[claimID{key, token}] = r
		del(b, bodyRow(key, token))
		return s.stripPending(b, key, token)
	})
	del(b, doubtRow(c.Key, c.Name)) // nobody is asked any more
	return err
}

// stripPending keeps that a report is still to be published, without the command: the
// turn is over, so it can only be told, never run.
func (s *Store) stripPending(b *pebble.Batch, key, token string) error {
	row := pendingRow(key, token)
	value, ok, err := get(s.db, row)
	if !ok || err != nil {
		return err
	}
	p, err := splitPending(row, value)
	if err == nil && len(p.command) > 0 {
		set(b, row, pendingOf(p.incarnation, nil))
	}
	return err
}

// wipe has the library write its tables again where the calls are, and give up every
// log that it has now. It keeps used logs to write over them, and what is not written
// over would stay readable: while files.wiping is set, those are removed instead.
func (s *Store) wipe(ctx context.Context, calls []Call) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	s.wiping.Lock()
	defer s.wiping.Unlock()
	s.files.wiping.Add(1)
	defer s.files.wiping.Add(-1)
	old, err := s.listed(".log")
	if err != nil {
		return err
	}
	if err := s.db.Flush(); err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	for _, key := range keysOf(calls) {
		for _, prefix := range [][]byte{factRow(key), pack([]byte{rowBody}, key), pack([]byte{rowPending}, key), pack([]byte{rowDoubt}, key)} {
			bounds := within(prefix)
			if err := s.db.Compact(ctx, bounds.LowerBound, bounds.UpperBound, false); err != nil {
				return fmt.Errorf("erase: %w", err)
			}
		}
	}
	return s.awaitWiped(ctx, old)
}

func keysOf(calls []Call) []string {
	var keys []string
	for _, c := range calls {
		if !slices.Contains(keys, c.Key) {
			keys = append(keys, c.Key)
		}
	}
	return keys
}

// awaitWiped turns over logs until none of the old ones is left, and waits for the
// removal of the tables that nothing refers to.
func (s *Store) awaitWiped(ctx context.Context, old []string) error {
	for range wipeRounds {
		logs, err := s.listed(".log")
		if err != nil {
			return err
		}
		tables, err := s.obsolete()
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(logs, func(l string) bool { return slices.Contains(old, l) }) && len(tables) == 0 {
			return nil
		}
		// Any write makes the next flush begin a new log.
		if err := s.db.Set(rowWiped, nil, pebble.Sync); err != nil {
			return fmt.Errorf("erase: %w", err)
		}
		if err := s.db.Flush(); err != nil {
			return fmt.Errorf("erase: %w", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wipePause):
		}
	}
	return fmt.Errorf("erase: %w", ErrNotWiped)
}

// rowWiped is written to have logs turned over; it says nothing.
var rowWiped = []byte("mwiped")

func (s *Store) listed(suffix string) ([]string, error) {
	names, err := s.files.List(s.dir)
	if err != nil {
		return nil, fmt.Errorf("erase: %w", err)
	}
	return slices.DeleteFunc(names, func(n string) bool { return !strings.HasSuffix(n, suffix) }), nil
}

// obsolete lists table files that no version of the store refers to.
func (s *Store) obsolete() ([]string, error) {
	files, err := s.listed(".sst")
	if err != nil {
		return nil, err
	}
	levels, err := s.db.SSTables()
	if err != nil {
		return nil, fmt.Errorf("erase: %w", err)
	}
	live := map[string]bool{}
	for _, level := range levels {
		for _, t := range level {
			live[t.BackingSSTNum.String()+".sst"] = true
		}
	}
	return slices.DeleteFunc(files, func(n string) bool { return live[n] }), nil
}

// Checkpoint makes a copy of the store in dir, which must not exist, as it is at one
// moment, while it is in use. Files are linked where that is possible.
func (s *Store) Checkpoint(dir string) error {
	if err := s.enter(context.Background()); err != nil {
		return err
	}
	defer s.leave()
	if err := s.db.Checkpoint(dir, pebble.WithFlushedWAL()); err != nil {
		return fmt.Errorf("checkpoint in %s: %w", filepath.Base(dir), err)
	}
	return nil
}
