package keystore

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// change is one batch on its way, and what it changes of the claims that are open in its
// stripe.
type change struct {
	stripe *stripe
	batch  *pebble.Batch
	claim  claimID // the one that it changes; empty: none
	after  record
	gone   bool // it removes the claim
	// again are claims that it writes anew, which may be open or not.
	again map[claimID]record
}

// keep says what the batch makes of a claim, and drop that it removes it.
func (c *change) keep(key, token string, r record) {
	if r.place == bodyRowed {
		r.body = nil // it may be large
	}
	c.claim, c.after = claimID{key, token}, r
}

func (c *change) drop(key, token string) { c.claim, c.gone = claimID{key, token}, true }

// apply shows the change to readers, once it is stored.
func (c *change) apply() {
	for id, r := range c.again {
		if _, open := c.stripe.open[id]; open {
			c.stripe.open[id] = r
		}
	}
	switch {
	case c.gone:
		delete(c.stripe.open, c.claim)
	case c.claim != claimID{}:
		c.stripe.keep(c.claim, c.after)
	}
}

// write runs fill and commits its batch, synced, while no other call reads or
// writes the key.
func (s *Store) write(ctx context.Context, key, what string, fill func(*change) error) error {
	return s.commit(ctx, key, what, pebble.Sync, fill)
}

func (s *Store) commit(ctx context.Context, key, what string, sync *pebble.WriteOptions, fill func(*change) error) error {
	if err := s.enter(ctx); err != nil {
		return fmt.Errorf("%s of %s: %w", what, key, err)
	}
	defer s.leave()
	g := s.guard(key)
	g.Lock()
	defer g.Unlock()
	c := &change{stripe: g, batch: s.db.NewBatch()}
	defer c.batch.Close()
	if err := fill(c); err != nil {
		return fmt.Errorf("%s of %s: %w", what, key, err)
	}
	if c.batch.Empty() {
		return nil
	}
	if err := c.batch.Commit(sync); err != nil {
		return fmt.Errorf("%s of %s: %w", what, key, err)
	}
	c.apply()
	return nil
}

// pending is the value of a pending row of this incarnation.
func (s *Store) pending(command []byte) []byte { return pendingOf(s.incarnation, command) }

func pendingOf(incarnation uint64, command []byte) []byte {
	b := make([]byte, 0, binary.MaxVarintLen64+len(command))
	return append(binary.AppendUvarint(b, incarnation), command...)
}
