package reducer

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/jet"
)

const (
	// eraseEvery is how often an erasure that waits is looked at again.
	eraseEvery = 200 * time.Millisecond
	// hostGrace is how long the logs wait for the hosts that remember effects of a turn.
	// A host that is away forgets when it comes back, before it says anything.
	hostGrace = 10 * time.Second
)

var (
	// errNotOwner: the partition was lost while a turn was being erased.
	errNotOwner = errors.New("reducer: the session has ended")
	// errBehind: not all that the turn has to say is said yet.
	errBehind = errors.New("reducer: outputs of the turn are still to come")
)

// eraser takes the content of turns away that somebody has ordered to be erased. It
// runs beside the loop. Every step may be done again, so a crash costs nothing but
// time: what is ordered stays ordered until it is done.
type eraser struct {
	s     *session
	told  map[subjects.Turn]bool      // to end
	since map[subjects.Turn]time.Time // waiting for hosts
}

// erasures works on orders until ctx ends.
func (s *session) erasures(ctx context.Context) {
	asked := make(chan subjects.Turn, inputsWaiting)
	s.task(func(ctx context.Context) {
		for ctx.Err() == nil {
			err := s.r.turns.WatchErasures(ctx, s.p, func(t subjects.Turn) {
				select {
				case asked <- t:
				case <-ctx.Done():
				}
			})
			if ctx.Err() == nil {
				s.log.Debug().Err(err).Msg("erasures not watched; trying again")
				pause(ctx, eraseEvery)
			}
		}
	})
	e := &eraser{s: s, told: map[subjects.Turn]bool{}, since: map[subjects.Turn]time.Time{}}
	pending := map[subjects.Turn]bool{}
	tick := time.NewTicker(eraseEvery)
	defer tick.Stop()
	for {
		select {
		case t := <-asked:
			pending[t] = true
			continue // the tick looks at all of them
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		s.lateMu.Lock()
		maps.Copy(pending, s.lateOf)
		clear(s.lateOf)
		s.lateMu.Unlock()
		for t := range pending {
			over, err := e.erase(ctx, t)
			if err != nil && ctx.Err() == nil && !errors.Is(err, errBehind) {
				s.log.Warn().Err(err).Str("turn", t.String()).Msg("turn not erased yet; trying again")
			}
			if over {
				delete(pending, t)
				delete(e.told, t)
				delete(e.since, t)
			}
		}
	}
}

// erase brings an erasure as far as it can come now, and says whether there is nothing
// to wait for but what the watch will tell of.
func (e *eraser) erase(ctx context.Context, t subjects.Turn) (over bool, err error) {
	s := e.s
	order, ok, err := s.r.turns.Erasure(ctx, t)
	if err != nil || !ok {
		return err == nil, err
	}
	var confirmed []string
	if !order.Complete() {
		if confirmed, err = s.r.turns.Confirmed(ctx, t); err != nil {
			return false, err
		}
	}
	state, events, err := e.look(ctx, t)
	if err != nil {
		return false, err
	}
	if order.State == turns.ErasureErased && events == 0 &&
		(order.Complete() || len(without(order.Hosts, confirmed)) == len(order.Waiting)) {
		if back, err := e.cameBack(ctx, t, order); err != nil || !back {
			return err == nil, err // nothing has come since
		}
	}
	if order.Complete() { // its hosts have said so, once and for all
		confirmed = order.Hosts
	}
	if state.Status != fold.Absent && !state.Done() {
		return false, e.end(ctx, t, order, &state)
	}
	if err := e.plan(ctx, t, &order, &state, events); err != nil {
		return false, err
	}
	if order.Waiting = without(order.Hosts, confirmed); len(order.Waiting) > 0 && e.within(t) {
		return false, nil
	}
	if err := e.entomb(ctx, t, order, &state); err != nil {
		return false, err
	}
	if err := e.takeAway(ctx, t, &order); err != nil {
		return false, err
	}
	order.State, order.Ended = turns.ErasureErased, time.Now().UTC().Format(time.RFC3339)
	if err := s.r.turns.NoteErasure(ctx, t, order); err != nil {
		return false, err
	}
	s.log.Info().Str("turn", t.String()).Int("events", order.Events).Int("outputs", order.Outputs).Int("bodies", order.Bodies).
		Strs("waiting", order.Waiting).Msg("turn erased")
	return true, nil
}

// look folds the turn, and counts its events but for tombstones.
func (e *eraser) look(ctx context.Context, t subjects.Turn) (fold.State, int, error) {
	state, n := fold.State{Turn: t}, 0
	err := e.s.r.turns.Each(ctx, t, 0, func(ev event.Event) error {
		if _, is := ev.Body.(*event.TurnErased); !is {
			n++
		}
		state, _, _ = fold.Guarded(state, ev)
		return nil
	})
	return state, n, err
}

// end has a turn that runs cancelled. It ends as cancelled turns do: what may have begun
// is waited for.
func (e *eraser) end(ctx context.Context, t subjects.Turn, order turns.Erasure, state *fold.State) error {
	if e.told[t] || state.Status != fold.Running {
		return nil
	}
	data, err := event.Encode(&event.TurnCancelled{By: order.By, Reason: TypeErased})
	if err == nil {
		_, err = e.s.conn().Publish(ctx, subjects.Events(e.s.p, t), nil, data)
	}
	e.told[t] = err == nil
	return err
}

// plan writes down what there is to take away, and what remains, while it can be known.
func (e *eraser) plan(ctx context.Context, t subjects.Turn, order *turns.Erasure, state *fold.State, events int) error {
	s := e.s
	outputs := 0
	if _, err := s.conn().ReadSubject(ctx, subjects.OutputsStream(s.p), subjects.OutTurn(s.p, t), 1, 0, func(jet.Msg) error {
		outputs++
		return nil
	}); err != nil {
		return err
	}
	if order.State == turns.ErasureErased { // this has come since
		order.Events, order.Outputs = order.Events+events, order.Outputs+outputs
	} else {
		order.Events, order.Outputs = max(order.Events, events), max(order.Outputs, outputs)
	}
	for _, c := range turns.CallsOf(state) {
		if !slices.ContainsFunc(order.Calls, func(h turns.ErasedCall) bool { return h.Call == c.Call && h.Key == c.Key }) {
			order.Calls = append(order.Calls, c)
		}
	}
	for _, c := range order.Calls {
		facts, err := e.factsOf(ctx, t, c)
		if err != nil {
			return err
		}
		for _, f := range facts {
			if f.Host != "" && !slices.Contains(order.Hosts, f.Host) {
				order.Hosts = append(order.Hosts, f.Host)
			}
		}
	}
	slices.Sort(order.Hosts)
	if order.State == turns.ErasureAsked {
		order.State = turns.ErasurePlan
	}
	return s.r.turns.NoteErasure(ctx, t, *order)
}

func (e *eraser) within(t subjects.Turn) bool {
	if e.since[t].IsZero() {
		e.since[t] = time.Now()
	}
	return time.Since(e.since[t]) < hostGrace
}

// entomb leaves what remains of the turn on both logs, before anything goes: its id is
// taken, audits know that it was erased, and the position rests on neither.
func (e *eraser) entomb(ctx context.Context, t subjects.Turn, order turns.Erasure, state *fold.State) error {
	s := e.s
	tomb := Tombstone{Type: TypeErased, V: subjects.Version, Turn: t.String(), At: order.At, By: order.By, Reason: order.Reason,
		Events: order.Events, Outputs: order.Outputs, Calls: order.Calls}
	err := s.inLoop(ctx, func() error {
		if _, ok := s.buried[t]; !ok && s.pos.in < state.Seq {
			return errBehind // who follows the feed is to see its end
		}
		if have, ok := s.buried[t]; ok && have.Events == tomb.Events && have.Outputs == tomb.Outputs {
			return nil
		}
		return s.bury(ctx, t, tomb)
	})
	if err == nil {
		err = s.out.Flush(ctx)
	}
	if err != nil || state.Status == fold.Erased {
		return err
	}
	data, err := event.Encode(&event.TurnErased{At: order.At, By: order.By, Reason: order.Reason})
	if err == nil {
		_, err = s.conn().Publish(ctx, subjects.Events(s.p, t), nil, data)
	}
	return err
}

// inLoop runs f between two events.
func (s *session) inLoop(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	select {
	case s.between <- func() { done <- f() }:
		return <-done
	case <-ctx.Done():
		return errNotOwner
	}
}
