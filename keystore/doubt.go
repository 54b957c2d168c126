package keystore

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Doubt is an unknown outcome that its target is still to be asked about.
type Doubt struct {
	Key, Token, Call string
	Command          []byte    // of the call, to ask with
	Since            time.Time // kept to the millisecond, as is Next
	Asked            int
	Next             time.Time
}

// rowDoubt starts the rows of doubts; see the table of rows, 'u'.
const rowDoubt = 'u'

const doubtVersion = 1

func doubtRow(key, call string) []byte { return append(pack([]byte{rowDoubt}, key), call...) }

// KeepDoubt stores a doubt, or how far asking has come. It is not synced: it is written
// before MarkSettled, in the order of the same log, so whoever loses it has the report
// in the outbox still, and comes to doubt again.
func (s *Store) KeepDoubt(ctx context.Context, d Doubt) error {
	if d.Key == "" || d.Call == "" || d.Token == "" || d.Asked < 0 {
		return fmt.Errorf("doubt %s: %w: needs key, token and call", d.Key, ErrInvalid)
	}
	v := appendText([]byte{doubtVersion}, d.Token)
	v = appendTime(v, d.Since)
	v = binary.AppendUvarint(v, uint64(d.Asked))
	v = append(appendTime(v, d.Next), d.Command...)
	return s.commit(ctx, d.Key, "doubt "+d.Call, pebble.NoSync, func(c *change) error {
		set(c.batch, doubtRow(d.Key, d.Call), v)
		return nil
	})
}

// EndDoubt forgets a doubt. If that is lost, the target is asked once more.
func (s *Store) EndDoubt(ctx context.Context, key, call string) error {
	return s.commit(ctx, key, "end of doubt "+call, pebble.NoSync, func(c *change) error {
		del(c.batch, doubtRow(key, call))
		return nil
	})
}

// Doubts lists what targets are still to be asked about.
func (s *Store) Doubts() ([]Doubt, error) {
	if err := s.enter(context.Background()); err != nil {
		return nil, err
	}
	defer s.leave()
	var out []Doubt
	err := each(s.db, []byte{rowDoubt}, func(row, value []byte) error {
		key, call, err := unpack(row[1:])
		if err != nil {
			return err
		}
		if len(value) == 0 || value[0] != doubtVersion {
			return fmt.Errorf("%w: doubt of %s", ErrCorrupt, key)
		}
		r := reader{rest: append([]byte(nil), value[1:]...)}
		d := Doubt{Key: key, Call: string(call), Token: r.text(), Since: r.time(), Asked: int(r.number()), Next: r.time()}
		if r.short {
			return fmt.Errorf("%w: doubt of %s", ErrCorrupt, key)
		}
		d.Command = r.rest
		out = append(out, d)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read doubts: %w", err)
	}
	return out, nil
}
