package keystore

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// importBytes is the size of one batch of Import.
const importBytes = 1 << 20

// Import stores effects that have ended and are published, as next gives them, until it
// gives no more: for filling a store from elsewhere. It syncs once, at the end; what it
// has stored before a crash is whole, but may be less than was given.
func (s *Store) Import(ctx context.Context, next func() (Intent, Report, bool)) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	for more := true; more; {
		b := s.db.NewBatch()
		for b.Len() < importBytes {
			var in Intent
			var rep Report
			if in, rep, more = next(); !more {
				break
			}
			rep.Call = in.Call
			after, err := rep.record()
			if err != nil {
				return fmt.Errorf("import %s: %w", in.Key, err)
			}
			r, _, err := supersede(record{claimed: true, call: in.Call, epoch: in.Epoch, generation: in.Generation,
				input: in.Input, identity: in.Identity, claimedAt: in.At}, true, after)
			if err != nil {
				return fmt.Errorf("import %s: %w", in.Key, err)
			}
			if r.place == bodyRowed {
				set(b, bodyRow(in.Key, in.Token), r.body)
			}
			set(b, tokenRow(in.Key, in.Token), r.encode())
		}
		how := pebble.NoSync
		if !more {
			how = pebble.Sync
		}
		if err := b.Commit(how); err != nil {
			return fmt.Errorf("import: %w", err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Compact rewrites the files without what is no longer needed, and gives their size in
// bytes. It happens by itself in time; this is for whoever wants to know.
func (s *Store) Compact(ctx context.Context) (bytes uint64, err error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.leave()
	first, last := []byte{0}, []byte{0xff}
	if err := s.db.Flush(); err != nil {
		return 0, fmt.Errorf("compact: %w", err)
	}
	if err := s.db.Compact(ctx, first, last, true); err != nil {
		return 0, fmt.Errorf("compact: %w", err)
	}
	return s.db.EstimateDiskUsage(first, last)
}
