package turns

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/jet"
)

// ErasureState is how far an erasure has come.
type ErasureState string

// The states of an erasure. A crash at any time leaves one of them, and whoever owns the
// turn's partition goes on from there.
const (
	ErasureAsked  ErasureState = "asked"   // the turn may still have to end
	ErasurePlan   ErasureState = "erasing" // what there is to take away is known
	ErasureErased ErasureState = "erased"  // the logs have nothing of it any more
)

// Erasure is the order to take a turn's content away, and what has come of it. Nothing
// in it is content: names, counts, and who gave the order.
type Erasure struct {
	V      int          `json:"v"`
	Turn   string       `json:"turn"` // tenant/turn
	State  ErasureState `json:"state"`
	At     string       `json:"at"` // RFC 3339, UTC: when it was ordered
	By     string       `json:"by,omitzero"`
	Reason string       `json:"reason,omitzero"`
	Ended  string       `json:"ended,omitzero"` // when the logs were done

	// What remains: the calls with their keys, whose facts still deduplicate.
	Calls []ErasedCall `json:"calls,omitzero"`
	// What is gone.
	Events  int `json:"events"`
	Outputs int `json:"outputs"`
	Bodies  int `json:"bodies"` // results on the effects log
	// Hosts have remembered effects of the turn; those in Waiting have not said yet that
	// they have forgotten the results.
	Hosts   []string `json:"hosts,omitzero"`
	Waiting []string `json:"waiting,omitzero"`
	// Left names streams that deny deletes: their files keep bytes until they are
	// rewritten.
	Left []string `json:"left,omitzero"`
}

// ErasedCall is what remains of a call.
type ErasedCall struct {
	Call    string `json:"call"` // <step>.<index>
	Key     string `json:"key"`
	Tool    string `json:"tool,omitzero"`
	Outcome string `json:"outcome,omitzero"`
}

// Complete reports whether nothing is left to do.
func (e *Erasure) Complete() bool { return e.State == ErasureErased && len(e.Waiting) == 0 }

// CallsOf lists what will remain of a turn's calls.
func CallsOf(s *fold.State) []ErasedCall {
	var out []ErasedCall
	for _, st := range s.Steps {
		for _, c := range st.Calls {
			if c.Key != "" {
				out = append(out, ErasedCall{Call: c.ID, Key: c.Key, Tool: c.Tool, Outcome: string(c.Outcome)})
			}
		}
	}
	return out
}

// AskErasure orders the erasure of a turn, once: an order that there is already stands,
// and is returned.
func (r *Reader) AskErasure(ctx context.Context, t subjects.Turn, by, reason string) (Erasure, error) {
	e := Erasure{V: subjects.Version, Turn: t.String(), State: ErasureAsked, At: time.Now().UTC().Format(time.RFC3339),
		By: by, Reason: reason}
	data, err := subjects.Seal(struct{}{}, e)
	if err != nil {
		return e, err
	}
	_, err = r.erasures.Create(ctx, r.indexKey(t), data)
	if have, ok, rerr := r.Erasure(ctx, t); rerr == nil && ok {
		return have, nil // this order, or an earlier one
	}
	if err != nil {
		return e, fmt.Errorf("order erasure of %s: %w", t, err)
	}
	return e, nil
}

// Erasure is the order to erase a turn; false if nobody gave one.
func (r *Reader) Erasure(ctx context.Context, t subjects.Turn) (Erasure, bool, error) {
	var e Erasure
	data, _, ok, err := r.erasures.Get(ctx, r.indexKey(t))
	if ok && err == nil {
		e, err = openErasure(data)
	}
	if err != nil {
		return e, false, fmt.Errorf("erasure of %s: %w", t, err)
	}
	return e, ok, nil
}

func openErasure(data []byte) (e Erasure, err error) {
	if err = subjects.Open(data, &e); err == nil && e.V > subjects.Version {
		err = subjects.ErrNewer
	}
	return e, err
}

// NoteErasure writes how far an erasure has come; it is for the owner of the partition.
func (r *Reader) NoteErasure(ctx context.Context, t subjects.Turn, e Erasure) error {
	data, err := subjects.Seal(struct{}{}, e)
	if err == nil {
		_, err = r.erasures.Put(ctx, r.indexKey(t), data)
	}
	if err != nil {
		return fmt.Errorf("note erasure of %s: %w", t, err)
	}
	return nil
}

// ConfirmErasure says that a host remembers no result of the turn any more.
func (r *Reader) ConfirmErasure(ctx context.Context, t subjects.Turn, host string) error {
	key := r.indexKey(t) + "." + host
	_, err := r.erasures.Create(ctx, key, nil)
	if errors.Is(err, jet.ErrConflict) {
		return nil // said before
	}
	return err
}

// Confirmed lists the hosts that have said so.
func (r *Reader) Confirmed(ctx context.Context, t subjects.Turn) ([]string, error) {
	keys, err := r.erasures.Keys(ctx, r.indexKey(t)+".*")
	if err != nil {
		return nil, fmt.Errorf("erasure of %s: %w", t, err)
	}
	for i, k := range keys {
		keys[i] = k[strings.LastIndexByte(k, '.')+1:]
	}
	slices.Sort(keys)
	return keys, nil
}

// WatchErasures calls fn for every order of a partition (-1: of all), and again whenever
// one has changed or a host has confirmed one, until ctx ends. Calls come one at a time.
func (r *Reader) WatchErasures(ctx context.Context, partition int, fn func(t subjects.Turn)) error {
	filter := ""
	if partition >= 0 {
		filter = strconv.Itoa(partition) + ".>"
	}
	return r.erasures.Watch(ctx, filter, func(key string, _ []byte, _ uint64, deleted bool) {
		if part := strings.Split(key, "."); len(part) >= 3 && !deleted {
			fn(subjects.Turn{Tenant: part[1], ID: part[2]})
		}
	})
}

// Ordered is an order to erase a turn, as a host sees it.
type Ordered struct {
	Turn      subjects.Turn
	Confirmed bool // by the host
}

// Erasures lists every order, and whether the host has confirmed it.
func (r *Reader) Erasures(ctx context.Context, host string) ([]Ordered, error) {
	keys, err := r.erasures.Keys(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("list erasures: %w", err)
	}
	confirmed := map[string]bool{}
	for _, k := range keys {
		if rest, ok := strings.CutSuffix(k, "."+host); ok {
			confirmed[rest] = true
		}
	}
	var out []Ordered
	for _, k := range keys {
		if part := strings.Split(k, "."); len(part) == 3 {
			out = append(out, Ordered{subjects.Turn{Tenant: part[1], ID: part[2]}, confirmed[k]})
		}
	}
	return out, nil
}

// ForgetUnknown takes a turn off the list of unknown effects: what they came to is not
// to be found out any more.
func (r *Reader) ForgetUnknown(ctx context.Context, t subjects.Turn) error {
	keys, err := r.unknown.Keys(ctx, r.indexKey(t)+".>")
	if err != nil {
		return fmt.Errorf("unknown effects of %s: %w", t, err)
	}
	for _, k := range keys {
		if err := r.unknown.Delete(ctx, k); err != nil {
			return fmt.Errorf("unknown effects of %s: %w", t, err)
		}
	}
	return nil
}
