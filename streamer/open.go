package streamer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/jet"
)

const (
	openRetryMin = 20 * time.Millisecond
	openRetryMax = time.Second
)

// sight is a turn as a command finds it.
type sight struct {
	state fold.State        // up to the end of the turn's subject
	then  fold.Conversation // at the command's input: what to send
}

// look folds the turn once, and keeps the conversation as it was at the command's
// input: what came later is not the history that the command is for.
func (sh *shift) look(ctx context.Context, c command) (sight, error) {
	v := sight{state: fold.State{Turn: c.turn}}
	err := sh.cfg.Turns.Each(ctx, c.turn, 0, func(e event.Event) error {
		v.state, _, _ = fold.Guarded(v.state, e) // a panic is counted in Skipped
		if e.Seq == c.In && v.state.Opened != nil {
			v.then = v.state.Conversation()
		}
		return nil
	})
	return v, err
}

// standing is what a turn's state says about a command.
type standing int

const (
	closed    standing = iota // decided, or never asked for: drop the command
	unopened                  // ours to open
	mine                      // opened with our token
	orphaned                  // opened by this host, by nobody who still works on it
	elsewhere                 // opened by another host
	unseen                    // the log's answer is older than the command
)

// standing reads the state for a command whose place the caller holds in this process,
// so that an opening by this host under another token has nobody behind it.
func (sh *shift) standing(s *fold.State, c command, token string) standing {
	step, a := s.Running()
	switch {
	case s.Seq < c.In && !s.Over():
		return unseen
	case a == nil || step != c.step || a.N != c.attempt || a.In != c.In:
		return closed
	case a.Started == nil:
		return unopened
	case a.Started.Token == token:
		return mine
	case a.Started.Instance == sh.cfg.Instance:
		return orphaned
	}
	return elsewhere
}

// opening is an attempt that is ours to run.
type opening struct {
	token string
	then  fold.Conversation
	alive time.Duration
	kind  requestKind
}

// requestKind tells what a request is to the budget of retries.
type requestKind int

const (
	firstRequest requestKind = iota
	retryRequest
	resumedRequest // after a lost attempt
)

// kindOf looks at the request before, if the step has made one.
func kindOf(s *fold.State, at place) requestKind {
	for _, a := range slices.Backward(s.Steps[at.step-1].Attempts[:at.attempt-1]) {
		switch {
		case a.Outcome == fold.AttemptLost:
			return resumedRequest
		case !a.Unsent:
			return retryRequest
		}
	}
	return firstRequest
}

// openAttempt opens the attempt by compare-and-set at the end of its turn's subject.
// Its token makes an unclear answer clear: whatever the log said, the state tells
// whether this very opening is there. With another standing than mine there is nothing
// to run, and that is what to do with the command.
func (sh *shift) openAttempt(ctx context.Context, c command) (opening, standing, error) {
	o := opening{token: rand.Text()}
	tried := false // an opening may be under way
	for wait := openRetryMin; ; wait = min(2*wait, openRetryMax) {
		v, err := sh.look(ctx, c)
		if err != nil && !tried {
			return o, unseen, err
		}
		if err == nil {
			if st := sh.standing(&v.state, c, o.token); st != unopened {
				return sh.opened(ctx, c, o, v, st)
			}
			err = sh.publishOpening(ctx, c, o.token, v.state.Seq)
			if tried = true; err == nil {
				return sh.opened(ctx, c, o, v, mine)
			}
			if errors.Is(err, jet.ErrRejected) {
				return o, unseen, err // certainly not stored
			}
			if errors.Is(err, jet.ErrConflict) && wait == openRetryMin {
				continue // somebody was faster, most likely; look at once
			}
		}
		if !sleep(ctx, wait) {
			// Whether the opening is stored nobody knows. If it is, no one stands behind it.
			sh.lose(c, o.token, "the opening was given up")
			return o, unseen, fmt.Errorf("open: %w", errors.Join(context.Cause(ctx), err))
		}
	}
}

func (sh *shift) publishOpening(ctx context.Context, c command, token string, last uint64) error {
	data, err := event.Encode(&event.AttemptStarted{
		Step: c.step, Attempt: c.attempt, Token: token, Provider: c.Provider, API: c.API,
		Model: c.Model, Instance: sh.cfg.Instance, Incarnation: sh.cfg.Incarnation,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", jet.ErrRejected, err)
	}
	_, err = sh.publishAfter(ctx, subjects.Events(c.partition, c.turn), nil, data, last)
	return err
}

// opened ends an opening, and an orphan's suffering.
func (sh *shift) opened(ctx context.Context, c command, o opening, v sight, st standing) (opening, standing, error) {
	switch st {
	case mine:
		o.then, o.alive, o.kind = v.then, sh.cfg.AliveEvery, kindOf(&v.state, c.place)
		if ms := v.state.Opened.Policy.AliveMS; ms > 0 {
			o.alive = time.Duration(ms) * time.Millisecond
		}
	case orphaned:
		_, a := v.state.Running()
		return o, st, sh.declareLost(ctx, c.place, a.Started)
	}
	return o, st, nil
}

// declareLost closes an attempt that this host has opened and nobody works on. Seen
// stays 0: the opener's own successor needs no proof that it is gone.
func (sh *shift) declareLost(ctx context.Context, at place, s *event.AttemptStarted) error {
	why := "streamer restarted"
	if s.Incarnation == sh.cfg.Incarnation {
		why = "streamer lost track"
	}
	err := sh.publishLost(ctx, at, s.Token, why)
	if err == nil {
		sh.metrics.ended(fold.AttemptLost, event.Lost, event.Usage{})
	}
	return err
}

func (sh *shift) publishLost(ctx context.Context, at place, token, why string) error {
	data, err := event.Encode(&event.AttemptLost{Step: at.step, Attempt: at.attempt, Token: token, Reason: why})
	if err != nil {
		return err
	}
	p := at.turn.Partition(sh.cfg.Partitions)
	_, err = sh.cfg.Conn.Publish(ctx, subjects.Events(p, at.turn), nil, data)
	if err != nil {
		return fmt.Errorf("declare %s step %d attempt %d lost: %w", at.turn, at.step, at.attempt, err)
	}
	return nil
}

// lose is publishLost at the end of a life.
func (sh *shift) lose(c command, token, why string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(sh.life), farewell)
	defer cancel()
	if err := sh.publishLost(ctx, c.place, token, why); err != nil {
		c.log(sh.cfg.Log.Warn()).Err(err).Msg("attempt left open")
	}
}

// sleep reports false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
