package reducer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
	"github.com/turnfold/turnfold/subjects/jet"
)

// Values of HeaderRewind.
const (
	rewindOpen = "open"
	rewindDone = "done"
)

// Rewind is the record that a partition's inputs after To were lost and what was said
// of them is taken back. It lies on subjects.OutPosition.
type Rewind struct {
	Type  string   `json:"type"` // rewind
	V     int      `json:"v"`
	To    uint64   `json:"to"`    // last input that EV still has
	Epoch uint64   `json:"epoch"` // number of this rewind in its partition, 1-based
	Turns []string `json:"turns"` // tenant/turn of each whose outputs were taken back
}

// Rewinds are a partition's rewinds in order.
type Rewinds []Rewind

// LoadRewinds reads a partition's rewinds.
func LoadRewinds(ctx context.Context, conn *jet.Conn, p int) (Rewinds, error) {
	var out Rewinds
	_, err := conn.ReadSubject(ctx, subjects.OutputsStream(p), subjects.OutPosition(p), 1, 0, func(m jet.Msg) error {
		var r Rewind
		if err := subjects.Open(m.Data, &r); err != nil {
			return err
		}
		if r.Type == "rewind" {
			out = append(out, r)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read rewinds of partition %d: %w", p, err)
	}
	return out, nil
}

// Latest is the number of the last rewind, 0 if there was none.
func (r Rewinds) Latest() uint64 {
	if len(r) == 0 {
		return 0
	}
	return r[len(r)-1].Epoch
}

// Epoch is the rewind since which the outputs of a turn's event stand: the last one
// that took the turn back, or the last one before which the event did not exist.
func (r Rewinds) Epoch(t subjects.Turn, seq uint64) uint64 {
	for i := len(r) - 1; i >= 0; i-- {
		if r[i].To < seq || slices.Contains(r[i].Turns, t.String()) {
			return r[i].Epoch
		}
	}
	return 0
}

// behind reports whether EV lacks the input that OUT stands at: then EV has lost its
// end (with power, at R1, say), and may have stored others at the same sequences.
func (s *session) behind(ctx context.Context) (bool, error) {
	if s.pos.in == 0 || s.pos.digest == "" && len(s.buried) == 0 {
		return false, nil
	}
	same, err := s.has(ctx, s.pos)
	return !same, err
}

// has reports whether EV has the input of a position. What age has dropped, or an erasure
// has taken out of the middle, counts as had: it was not lost. A position that rests on
// an erased input has no digest.
func (s *session) has(ctx context.Context, pos position) (bool, error) {
	stream := subjects.EventsStream(s.p)
	m, ok, err := s.conn().Get(ctx, stream, pos.in)
	if err != nil {
		return false, err
	}
	if ok {
		return pos.digest == "" || Digest(m.Subject, m.Data) == pos.digest, nil
	}
	st, err := s.conn().State(ctx, stream)
	return pos.in < st.FirstSeq || pos.in <= st.LastSeq && len(s.buried) > 0, err
}

// rewind takes back what OUT says of inputs that EV no longer has: a record of the
// rewind, then for each turn concerned a reset of the whole turn and its feed from
// what EV has. A rewind that was interrupted is done again, as one more.
func (s *session) rewind(ctx context.Context, lastOut uint64) error {
	to, concerned, err := s.lastShared(ctx, lastOut)
	if err != nil {
		return err
	}
	r := Rewind{Type: "rewind", V: subjects.Version, To: to.in, Epoch: s.rewinds.Latest() + 1}
	for t := range concerned {
		r.Turns = append(r.Turns, t.String())
	}
	slices.Sort(r.Turns)
	s.rewinds = append(s.rewinds, r)
	s.pos = position{in: to.in, whole: true, digest: to.digest, epoch: r.Epoch, rewind: rewindOpen}
	s.log.Warn().Uint64("to", r.To).Uint64("epoch", r.Epoch).Int("turns", len(r.Turns)).
		Msg("the event log has lost its end; taking back what was said of it")
	s.r.metrics.rewinds.Inc()
	if err := s.note(r); err != nil {
		return err
	}
	for _, name := range r.Turns {
		tenant, id, _ := strings.Cut(name, "/")
		t := subjects.Turn{Tenant: tenant, ID: id}
		if _, gone := s.buried[t]; gone {
			continue
		}
		if err := s.retell(ctx, t); err != nil {
			return err
		}
	}
	s.pos.rewind = rewindDone
	return s.note(Rewind{Type: "rewound", V: subjects.Version, To: r.To, Epoch: r.Epoch})
}

func (s *session) note(r Rewind) error {
	data, err := subjects.Seal(struct{}{}, r)
	if err != nil {
		return err
	}
	_, err = s.out.Append(subjects.OutPosition(s.p), s.pos.header(), data)
	return err
}

// lastShared walks OUT backwards to the last message whose input EV still has, and
// collects the turns of the messages after it.
func (s *session) lastShared(ctx context.Context, lastOut uint64) (position, map[subjects.Turn]bool, error) {
	concerned := map[subjects.Turn]bool{}
	checked := map[uint64]bool{} // inputs found missing; an input has many outputs
	for seq := lastOut; seq > 0; seq-- {
		m, ok, err := s.conn().Get(ctx, subjects.OutputsStream(s.p), seq)
		if err != nil {
			return position{}, nil, err
		}
		if !ok {
			continue
		}
		pos, err := readPosition(m)
		if err != nil {
			return position{}, nil, err
		}
		if pos.rewind == "" && pos.in > 0 && !checked[pos.in] {
			same, err := s.has(ctx, pos)
			if err != nil {
				return position{}, nil, err
			}
			if same {
				return pos, concerned, nil
			}
			checked[pos.in] = true
		}
		if _, t, _, err := subjects.ParseOut(m.Subject); err == nil {
			concerned[t] = true
		}
	}
	return position{}, concerned, nil
}

// retell writes a turn's feed again from what EV has up to the position, after a reset
// of the whole turn. Of its commands only those that nobody has answered go out again.
func (s *session) retell(ctx context.Context, t subjects.Turn) error {
	index := 0
	l := &live{turn: t, state: fold.State{Turn: t, Epoch: s.pos.epoch}, armed: map[timerKey]armed{}}
	say := func(o feed.Output) error {
		pos := s.pos
		if l.state.Opened != nil {
			pos.chain = l.state.Chain.String()
		}
		return s.publish(t, o, pos)
	}
	numbered := func(step, attempt int, b feed.Body) feed.Output {
		o := feed.Output{ID: fold.ID(0, index, s.pos.epoch), Turn: t.ID, Step: step, Attempt: attempt, Body: b}
		index++
		return o
	}
	if err := say(numbered(0, 0, &feed.Reset{Reason: "rewind"})); err != nil {
		return err
	}
	present := false
	err := s.r.turns.Each(ctx, t, 0, func(e event.Event) error {
		present = true
		if e.Seq > s.pos.in {
			return nil // comes with the tail
		}
		outputs, err := s.foldIn(l, e)
		if err != nil {
			s.log.Error().Err(err).Msg("event set aside")
		}
		for _, o := range outputs {
			if o.Body.Lane() != subjects.LaneFeed {
				continue
			}
			if err := say(o); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !present {
		return say(numbered(0, 0, &feed.Error{Class: "lost",
			Message: "This turn was lost together with the end of its log. Nothing more will come of it; send it again."}))
	}
	for _, o := range l.state.Pending() {
		if err := say(numbered(o.Step, o.Attempt, o.Body)); err != nil {
			return err
		}
	}
	s.turns[t] = l
	s.after(l)
	return nil
}
