package reducer

import (
	"context"
	"time"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
)

// Message is what the message store keeps of a finished turn.
type Message struct {
	V        int    `json:"v"`
	ID       string `json:"message_id"`
	Tenant   string `json:"tenant"`
	Turn     string `json:"turn"`
	Role     string `json:"role"` // assistant
	Text     string `json:"text"`
	Finish   string `json:"finish"`
	Salvaged bool   `json:"salvaged"`
}

// message renders a completed turn for the store. Its id follows from the turn's, so
// that saving twice saves one message.
func (s *session) message(l *live) Message { return MessageOf(&l.state) }

// MessageOf is the message of a completed turn.
func MessageOf(s *fold.State) Message {
	return Message{V: subjects.Version, ID: "msg_" + s.Turn.ID, Tenant: s.Turn.Tenant, Turn: s.Turn.ID,
		Role: "assistant", Text: s.Text(), Finish: s.Finish, Salvaged: s.Salvaged}
}

// save stores a message and tells the turn so, until that is done or the session ends.
// Renderers have shown the completion by then: they never wait for this
// (docs/invariants.md, I13).
func (s *session) save(ctx context.Context, t subjects.Turn, m Message) {
	for wait := saveRetryMin; ; wait = min(2*wait, saveRetryMax) {
		err := s.saveOnce(ctx, t, m)
		if err == nil || ctx.Err() != nil {
			return
		}
		s.log.Warn().Err(err).Str("turn", t.String()).Msg("message not saved; trying again")
		pause(ctx, wait)
	}
}

const (
	saveRetryMin = 100 * time.Millisecond
	saveRetryMax = 10 * time.Second
)

func (s *session) saveOnce(ctx context.Context, t subjects.Turn, m Message) error {
	data, err := subjects.Seal(struct{}{}, m)
	if err != nil {
		return err
	}
	if err := s.conn().Bucket(subjects.BucketMessages).Replace(ctx, t.Tenant+"."+t.ID, data); err != nil {
		return err
	}
	fact, err := event.Encode(&event.MessageSaved{MessageID: m.ID})
	if err != nil {
		return err
	}
	_, err = s.conn().Publish(ctx, subjects.Events(s.p, t), nil, fact)
	return err
}

// leave takes a turn out of the index once its last output is stored, and its unknown
// effects are listed.
func (s *session) leave(ctx context.Context, state *fold.State) {
	t := state.Turn
	err := s.out.Flush(ctx)
	if err == nil {
		err = s.r.turns.MarkUnknown(ctx, state)
	}
	if err == nil {
		err = s.r.turns.MarkDone(ctx, t)
	}
	if err != nil && ctx.Err() == nil {
		s.log.Debug().Err(err).Str("turn", t.String()).Msg("turn stays in the index until the next sweep")
	}
}

// sweep compares the index with memory: what is over leaves the index, and what the
// index has and memory lacks is either new, or was never stored, or is over.
func (s *session) sweep() {
	known := make(map[subjects.Turn]bool, len(s.turns))
	for t := range s.turns {
		known[t] = true
	}
	s.task(func(ctx context.Context) {
		open, err := s.r.turns.Open(ctx, s.p)
		if err != nil {
			return
		}
		absent := map[subjects.Turn]bool{}
		for _, t := range open {
			if known[t] {
				continue
			}
			state, err := s.r.turns.Load(ctx, t, 0)
			switch {
			case err != nil:
				return
			case state.Done():
				s.leave(ctx, &state)
			case state.Opened == nil:
				absent[t] = true
			}
		}
		s.forget(ctx, absent)
	})
}

// forget drops index entries of turns that were announced but never stored: their
// gateway died in between, or gave the caller an error.
func (s *session) forget(ctx context.Context, absent map[subjects.Turn]bool) {
	if len(absent) == 0 {
		return
	}
	pause(ctx, sweepEvery/2) // a turn that is being stored at this moment is stored by then
	for t := range absent {
		if state, err := s.r.turns.Load(ctx, t, 0); err == nil && state.Opened == nil && ctx.Err() == nil {
			s.leave(ctx, &state)
		}
	}
}
