package turns

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
)

// MarkUnknown brings the list of unknown effects up to a turn's state: calls whose
// outcome is unknown are on it, calls whose outcome has become known are not. The owner
// calls it before a turn leaves the index of open ones, so that each unknown call is of
// a turn that is open, or is on the list, or both.
func (r *Reader) MarkUnknown(ctx context.Context, s *fold.State) error {
	for _, st := range s.Steps {
		for _, c := range st.Calls {
			if !c.Doubted {
				continue
			}
			at := r.indexKey(s.Turn) + "." + c.ID + "." + cmp.Or(c.Key, "none")
			var err error
			if c.Outcome == event.OutcomeUnknown {
				_, err = r.unknown.Put(ctx, at, nil)
			} else {
				err = r.unknown.Delete(ctx, at)
			}
			if err != nil {
				return fmt.Errorf("list unknown call %s of %s: %w", c.ID, s.Turn, err)
			}
		}
	}
	return nil
}

// Unknown lists the ended turns of a tenant that have calls on the list of unknown
// effects; with a key, only those with calls of that key. An entry may be older than
// what its turn says now; the turn is right.
func (r *Reader) Unknown(ctx context.Context, tenant, key string) ([]subjects.Turn, error) {
	keys, err := r.unknown.Keys(ctx, "*."+tenant+".*.*.*."+cmp.Or(key, "*"))
	if err != nil {
		return nil, fmt.Errorf("list unknown effects: %w", err)
	}
	seen := map[subjects.Turn]bool{}
	var out []subjects.Turn
	for _, k := range keys {
		part := strings.Split(k, ".") // partition, tenant, turn, step, index, key
		if len(part) != 6 {
			continue
		}
		if t := (subjects.Turn{Tenant: part[1], ID: part[2]}); !seen[t] {
			seen[t] = true
			out = append(out, t)
		}
	}
	return out, nil
}
