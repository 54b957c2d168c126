package streamer

import (
	"context"

	"github.com/turnfold/turnfold/reducer/fold"
)

// recheck looks at what runs here after each reconnect, until ctx ends: withdrawals are
// broadcast once, and those of the time without a connection were missed. What the fold
// has closed is stopped, for its tokens are billed and of no use any more.
func (sh *shift) recheck(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-sh.reconnected:
		}
		for !sh.stopClosed(ctx) {
			if !sleep(ctx, resumeRetry) {
				return
			}
		}
	}
}

// stopClosed reports false if a turn could not be read.
func (sh *shift) stopClosed(ctx context.Context) bool {
	whole := true
	for _, at := range sh.open.places() {
		s, err := sh.cfg.Turns.Load(ctx, at.turn, 0)
		switch {
		case ctx.Err() != nil:
			return true
		case err != nil:
			sh.cfg.Log.Warn().Err(err).Str("turn", at.turn.String()).Msg("turn not looked at")
			whole = false
		case closedByFold(&s, at):
			sh.open.cancel(at, errWithdrawn)
		}
	}
	return whole
}

// closedByFold reports whether the attempt was closed for another reason than its own
// last event. A state that does not know the attempt is older than its command.
func closedByFold(s *fold.State, at place) bool {
	for _, st := range s.Steps {
		if st.N != at.step || len(st.Attempts) < at.attempt {
			continue
		}
		o := st.Attempts[at.attempt-1].Outcome
		return o == fold.AttemptLost || o == fold.AttemptCancelled
	}
	return false
}
