package fold

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"strconv"

	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

// failure is why an attempt ended without finishing.
type failure struct {
	class        event.Class
	detail       string
	length       bool // cut by the output limit
	retryable    bool // another request may end otherwise, as far as the provider tells
	retryAfterMS int64
}

// The end of a turn whose tokens are used up.
const (
	tokensPerTurn = "tokens_per_turn"
	tokensApology = "The budget of tokens for this turn is used up (tokens_per_turn)."
)

// sameAgain tells for each class whether the same request may be made again. The
// others are retried only where the route's next entry is another model or provider:
// what one refuses, another may serve.
var sameAgain = map[event.Class]bool{
	event.Connection:    true,
	event.Stall:         true,
	event.Timeout:       true,
	event.ServerError:   true,
	event.Overloaded:    true,
	event.RateLimited:   true,
	event.Truncated:     true, // by the end of the stream; by length see mayRetry
	event.MalformedCall: true,
	event.UnknownFinish: true,
	event.Lost:          true,
}

// fail closes an attempt and either commands the next one, after exactly one reset
// (I3), or ends the turn with what there is.
func (f *folder) fail(a *Attempt, o AttemptOutcome, why failure) {
	f.close(a, o, why.class, why.detail)
	a.cut = why.length
	st := f.step()
	word, refusal := string(why.class), f.mayRetry(st, a, why)
	if refusal == "" && f.outOfTokens() {
		word, refusal = tokensPerTurn, tokensApology
	}
	if refusal != "" {
		f.finish(word, refusal)
		return
	}
	f.emit(st.N, a.N, &feed.Reset{Abandoned: a.N, Reason: string(why.class)})
	f.command(f.backoff(st, a, why))
}

// mayRetry gives the reason why no other attempt is made, or nothing.
func (f *folder) mayRetry(st *Step, a *Attempt, why failure) string {
	p := f.Opened.Policy
	next := f.entry(a.N + 1)
	changed := next.Provider != a.Entry.Provider || next.Model != a.Entry.Model
	switch {
	case why.class == event.Filtered:
		return "The model's answer was withheld by a content filter."
	case why.class == event.Budget:
		return "The model could not answer, and the fleet's budget of retries is used up (retry.budget)."
	case st.tooShort(next):
		return "The model's answer was cut by its output limit, and no larger one is configured."
	case (!why.retryable || !sameAgain[why.class]) && !changed && !why.length:
		return "The model could not answer (" + string(why.class) + ")."
	case p.AfterText == "salvage" && a.textLen > 0:
		return "The model's answer broke off, and what was shown cannot be taken back."
	case st.counted() >= p.AttemptsPerStep:
		return "The model could not answer in " + strconv.Itoa(st.counted()) + " attempts (attempts_per_step)."
	case f.attempts >= p.AttemptsPerTurn:
		return "The budget of model requests for this turn is used up (attempts_per_turn)."
	}
	return ""
}

// tooShort reports whether a reply of this step was cut by an output limit that the
// entry would only repeat: another try needs another model or a larger limit (case 08).
func (st *Step) tooShort(e event.Entry) bool {
	for _, a := range st.Attempts {
		if a.cut && a.Entry.Model == e.Model && outputLimit(e) <= outputLimit(a.Entry) {
			return true
		}
	}
	return false
}

// outputLimit orders output budgets: none is the largest.
func outputLimit(e event.Entry) int {
	if e.MaxOutputTokens == 0 {
		return math.MaxInt
	}
	return e.MaxOutputTokens
}

// counted is the number of attempts that count against attempts_per_step: a lost
// attempt is its streamer's fault, so it counts against the turn's budget only.
func (st *Step) counted() int {
	n := 0
	for _, a := range st.Attempts {
		if a.Outcome != AttemptLost {
			n++
		}
	}
	return n
}

// backoff is the wait before the next attempt in milliseconds: exponential with full
// jitter, never under a quarter of the base, and never under what the provider asks
// for, up to a cap. The jitter is a hash of the attempt's address, because the fold
// draws no random numbers and an audit must find the same wait.
func (f *folder) backoff(st *Step, a *Attempt, why failure) int64 {
	if a.Outcome == AttemptLost {
		return 0 // the provider did nothing wrong
	}
	p := f.Opened.Policy
	span := p.BackoffBaseMS
	for range st.counted() - 1 {
		span = min(span*2, p.BackoffMaxMS)
	}
	span = min(span, p.BackoffMaxMS)
	h := fnv.New64a()
	h.Write([]byte(f.Turn.String()))
	h.Write(binary.BigEndian.AppendUint32(nil, uint32(st.N)))
	h.Write(binary.BigEndian.AppendUint32(nil, uint32(a.N)))
	wait := int64(h.Sum64() % uint64(max(span, 0)+1))
	wait = max(wait, p.BackoffBaseMS/4)
	return max(wait, min(why.retryAfterMS, p.RetryAfterMaxMS))
}
