package keystore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/turnfold/turnfold/subjects/effect"
)

// Intent is what a host sets out to do, before it claims the key.
type Intent struct {
	Key, Token, Call string
	// Epoch, Generation and Input are those of the claim's fact.
	Epoch      uint64
	Generation int
	Input      uint64
	// Identity is a digest of what the key stands for; empty where nobody has it.
	Identity string
	// Command is what the call was commanded with, to go on after a restart. It is
	// kept until the report is published.
	Command []byte
	At      time.Time // kept to the millisecond
	// Drawn says that the token has been drawn at random for this claim, so that nothing
	// can be stored of it: the store does not look.
	Drawn bool
}

// Report is how a claim's run ended.
type Report struct {
	Key, Token string
	Call       string // may be empty if the intent is stored
	Generation int    // only of a report on another host's claim
	Outcome    effect.Outcome
	ErrorClass string
	Detail     string
	// Body is the result; nil means that there is none here. Then BodyDigest may
	// say, in hex, which one is kept elsewhere.
	Body       []byte
	BodyDigest string
	At         time.Time // kept to the millisecond
}

// Intent stores in before its claim is published. The same claim again replaces
// it; a token that is another call's, or has a report, is ErrTokenUsed.
func (s *Store) Intent(ctx context.Context, in Intent) error {
	if in.Key == "" || in.Token == "" || in.Call == "" || in.Generation < 0 {
		return fmt.Errorf("intent %s %s: %w: needs key, token and call", in.Key, in.Token, ErrInvalid)
	}
	return s.write(ctx, in.Key, "intent "+in.Token, func(c *change) error {
		if !in.Drawn {
			before, ok, err := s.claim(c.stripe, in.Key, in.Token)
			if err != nil {
				return err
			}
			if ok && (before.call != in.Call || before.outcome != "") {
				return ErrTokenUsed
			}
		}
		r := record{claimed: true, call: in.Call, epoch: in.Epoch, generation: in.Generation, input: in.Input,
			identity: in.Identity, claimedAt: in.At}
		set(c.batch, tokenRow(in.Key, in.Token), r.encode())
		set(c.batch, pendingRow(in.Key, in.Token), s.pending(in.Command))
		c.keep(in.Key, in.Token, r)
		return nil
	})
}

// Report stores how the claim's run ended. A known outcome never changes: the
// same one again, or an unknown, changes nothing, and another is ErrOutcomeKnown.
// An unknown may become known. A report without an intent is one on a claim of
// another host, or on one that was lost with this store.
func (s *Store) Report(ctx context.Context, rep Report) error {
	after, err := rep.record()
	if err != nil {
		return fmt.Errorf("report %s %s: %w", rep.Key, rep.Token, err)
	}
	return s.write(ctx, rep.Key, "report "+rep.Token, func(c *change) error {
		before, ok, err := s.claim(c.stripe, rep.Key, rep.Token)
		if err != nil {
			return err
		}
		next, changed, err := supersede(before, ok, after)
		if !changed || err != nil {
			return err
		}
		if before.place == bodyRowed {
			del(c.batch, bodyRow(rep.Key, rep.Token))
		}
		if next.place == bodyRowed {
			set(c.batch, bodyRow(rep.Key, rep.Token), next.body)
		}
		set(c.batch, tokenRow(rep.Key, rep.Token), next.encode())
		c.keep(rep.Key, rep.Token, next)
		return s.keepPending(c.batch, rep, before)
	})
}

// record checks rep and decides where its body is kept.
func (rep Report) record() (record, error) {
	if code, ok := outcomeCode(rep.Outcome); rep.Key == "" || rep.Token == "" || !ok || code == 0 || rep.Generation < 0 {
		return record{}, fmt.Errorf("%w: needs key, token, and succeeded, failed or unknown, not %q", ErrInvalid, rep.Outcome)
	}
	r := record{call: rep.Call, generation: rep.Generation, outcome: rep.Outcome, class: rep.ErrorClass,
		detail: rep.Detail, reportedAt: rep.At, body: rep.Body}
	switch {
	case rep.Body != nil:
		r.digest = sha256.Sum256(rep.Body)
		r.place = bodyInline
		if len(rep.Body) > bodyInlineMax {
			r.place = bodyRowed
		}
		if rep.BodyDigest != "" && rep.BodyDigest != r.bodyDigest() {
			return record{}, fmt.Errorf("%w: the digest is not the body's", ErrInvalid)
		}
	case rep.BodyDigest != "":
		r.place = bodyElsewhere
		if n, err := hex.Decode(r.digest[:], []byte(rep.BodyDigest[:min(64, len(rep.BodyDigest))])); err != nil || n != len(r.digest) || len(rep.BodyDigest) != 64 {
			return record{}, fmt.Errorf("%w: body digest %q", ErrInvalid, rep.BodyDigest)
		}
	}
	return r, nil
}

// supersede returns the record after the report in after, and whether it differs
// from before, which is there if ok. The rule is effect's: the greater report
// counts.
func supersede(before record, ok bool, after record) (next record, changed bool, err error) {
	if !ok {
		if after.call == "" {
			return record{}, false, fmt.Errorf("%w: no intent is stored, so a call is needed", ErrInvalid)
		}
		return after, true, nil
	}
	if after.call != "" && after.call != before.call {
		return record{}, false, ErrTokenUsed
	}
	if before.outcome.Known() && after.outcome.Known() && (before.outcome != after.outcome || before.bodyDigest() != after.bodyDigest()) {
		return record{}, false, fmt.Errorf("%w: %s, reported at %s", ErrOutcomeKnown, before.outcome, before.reportedAt.Format(time.RFC3339))
	}
	next = after
	next.claimed, next.call, next.epoch, next.input, next.claimedAt = before.claimed, before.call, before.epoch, before.input, before.claimedAt
	next.identity = before.identity
	next.generation = max(before.generation, after.generation)
	if before.outcome == "" {
		return next, true, nil
	}
	greater := effect.CompareReports(next.reportFact("", ""), before.reportFact("", "")) > 0
	return next, greater && !before.outcome.Known(), nil
}

// keepPending makes sure that the report will be published. An open intent has
// its pending row. A report that is new here, or that replaces one which was
// published perhaps, may need one.
func (s *Store) keepPending(b *pebble.Batch, rep Report, before record) error {
	if before.claimed && before.outcome == "" {
		return nil
	}
	row := pendingRow(rep.Key, rep.Token)
	_, ok, err := get(s.db, row)
	if !ok && err == nil {
		set(b, row, s.pending(nil))
	}
	return err
}

// NotRun stores that a call was withdrawn before it had a claim.
func (s *Store) NotRun(ctx context.Context, key, call string) error {
	if key == "" || call == "" {
		return fmt.Errorf("not_run %s: %w: needs key and call", key, ErrInvalid)
	}
	return s.write(ctx, key, "not_run "+call, func(c *change) error {
		set(c.batch, notRunRow(key, call), nil)
		return nil
	})
}

// Abandon removes an intent whose claim was not won, so that it is not taken for
// an effect in doubt. It must be certain that the claim is not on the shared log.
// A claim that has a report is not abandoned: that is ErrTokenUsed.
func (s *Store) Abandon(ctx context.Context, key, token string) error {
	return s.write(ctx, key, "abandon "+token, func(c *change) error {
		r, ok, err := s.claim(c.stripe, key, token)
		if !ok || err != nil {
			return err
		}
		if r.outcome != "" {
			return ErrTokenUsed
		}
		del(c.batch, tokenRow(key, token))
		del(c.batch, pendingRow(key, token))
		c.drop(key, token)
		return nil
	})
}
