package bench

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/turnfold/turnfold/keystore"
	"github.com/turnfold/turnfold/subjects/effect"
)

// lookups is how many keys are looked up, one in two of them known.
const lookups = 100_000

// measureKeys fills a store with settled calls, compacts it, and opens it as a process
// does that starts.
func measureKeys(ctx context.Context, dir string, keys int, progress io.Writer) (r KeysReport, err error) {
	r.Keys = keys
	s, err := keystore.Open(dir, keystore.Config{Host: "bench", Log: zerolog.Nop()})
	if err != nil {
		return r, err
	}
	began := time.Now()
	if err := fill(ctx, s, keys, progress); err != nil {
		return r, err
	}
	bytes, err := s.Compact(ctx)
	if err != nil {
		return r, err
	}
	r.FillS, r.BytesPerKey = time.Since(began).Seconds(), float64(bytes)/float64(keys)
	if err := s.Close(); err != nil {
		return r, err
	}
	began = time.Now()
	if s, err = keystore.Open(dir, keystore.Config{Host: "bench", Log: zerolog.Nop()}); err != nil {
		return r, err
	}
	if err := start(s); err != nil {
		return r, err
	}
	r.StartMS = float64(time.Since(began).Microseconds()) / 1000
	took := make([]time.Duration, 0, lookups)
	for i := range lookups {
		n := rand.Int64N(int64(keys))
		if i%2 == 1 {
			n += int64(keys) // never stored
		}
		_, c := call(n)
		at := time.Now()
		g, err := s.Glance(c.Key)
		took = append(took, time.Since(at))
		if err != nil || g.Known != (i%2 == 0) || g.Known != (g.Success != nil) {
			return r, fmt.Errorf("key %d is known: %v, %w", n, g.Known, err)
		}
	}
	slices.Sort(took)
	us := func(q float64) float64 {
		return float64(took[min(int(q*lookups), lookups-1)].Nanoseconds()) / 1000
	}
	r.LookupP50, r.LookupP99 = us(0.5), us(0.99)
	return r, s.Close()
}

// start reads what an executor reads of its memory before it works.
func start(s *keystore.Store) error {
	if _, err := s.Marks(); err != nil {
		return err
	}
	if _, err := s.Interrupted(); err != nil {
		return err
	}
	if _, err := s.Doubts(); err != nil {
		return err
	}
	_, err := s.Outbox()
	return err
}

func fill(ctx context.Context, s *keystore.Store, keys int, progress io.Writer) error {
	n := 0
	return s.Import(ctx, func() (keystore.Intent, keystore.Report, bool) {
		if n == keys {
			return keystore.Intent{}, keystore.Report{}, false
		}
		t, c := call(int64(n))
		token := uuid.NewString()
		n++
		if n%max(keys/10, 1) == 0 && keys >= 1_000_000 {
			fmt.Fprintf(progress, "%d of %d keys\n", n, keys)
		}
		at := time.UnixMilli(1_790_000_000_000 + int64(n))
		return keystore.Intent{Key: c.Key, Token: token, Call: t.String() + "/1.0", Input: c.In, Identity: c.Identity, At: at},
			keystore.Report{Key: c.Key, Token: token, Outcome: effect.Succeeded, Body: fmt.Appendf(nil, `{"refund":"F-%d","status":"accepted"}`, n), At: at}, true
	})
}
