package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/subjects"
)

const (
	// eraseWait is how long a request waits for the erasure that it has ordered. What is
	// not done by then goes on without it.
	eraseWait  = 15 * time.Second
	eraseEvery = 50 * time.Millisecond
)

// gone is the answer of everything that would show an erased turn.
func gone() error {
	return fault{http.StatusGone, "turn", "The turn was erased: its content was taken away on purpose. Its id cannot be used again."}
}

// deleteTurn orders the erasure of a turn, and waits a while for it. A turn that runs is
// cancelled first. The answer says what is gone and what remains: 200 if all is done,
// 202 while something is still to do. Sent again, it orders nothing new.
func (g *Gateway) deleteTurn(w http.ResponseWriter, r *http.Request, t subjects.Turn) {
	a, err := g.readAction(w, r, false)
	var order turns.Erasure
	var have bool
	if err == nil {
		order, have, err = g.cfg.Turns.Erasure(r.Context(), t)
	}
	if err == nil && !have {
		order, err = g.askErasure(r.Context(), t, a)
	}
	for until := time.Now().Add(eraseWait); err == nil && order.State != turns.ErasureErased && time.Now().Before(until); {
		if err = pause(r.Context(), eraseEvery); err == nil {
			order, _, err = g.cfg.Turns.Erasure(r.Context(), t)
		}
	}
	if err != nil {
		g.refuseFor(w, r, err)
		return
	}
	status := http.StatusAccepted
	if order.Complete() {
		status = http.StatusOK
	}
	g.answer(w, status, order)
}

// followErasures forgets what this process has in mind of turns that are erased, until
// ctx ends. Each order comes again when it is done, so what is noted meanwhile goes too.
func (g *Gateway) followErasures(ctx context.Context) {
	for ctx.Err() == nil {
		err := g.cfg.Turns.WatchErasures(ctx, -1, func(t subjects.Turn) {
			g.directory.erase(t)
			g.summaries.drop(t)
		})
		if ctx.Err() == nil {
			g.cfg.Log.Debug().Err(err).Msg("erasures not watched; trying again")
			_ = pause(ctx, tailRetryMax) // the loop looks at ctx
		}
	}
}

func (g *Gateway) askErasure(ctx context.Context, t subjects.Turn, a action) (turns.Erasure, error) {
	known, err := g.trace(ctx, t)
	if err == nil && !known {
		err = fault{http.StatusNotFound, "turn", "No such turn."}
	}
	if err != nil {
		return turns.Erasure{}, err
	}
	return g.cfg.Turns.AskErasure(ctx, t, a.By, a.Reason)
}

// trace reports whether a turn has left anything on either log. Its events may have aged
// out before its outputs.
func (g *Gateway) trace(ctx context.Context, t subjects.Turn) (bool, error) {
	p := t.Partition(g.cfg.Partitions)
	_, ok, err := g.cfg.Conn.LastOf(ctx, subjects.EventsStream(p), subjects.Events(p, t))
	if err != nil || ok {
		return ok, err
	}
	_, ok, err = g.cfg.Conn.LastOf(ctx, subjects.OutputsStream(p), subjects.OutTurn(p, t))
	return ok, err
}

// readable refuses a turn that was erased, by the state that its events give.
func readable(s *fold.State) error {
	if s.Status == fold.Erased {
		return gone()
	}
	return nil
}
