package executor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/turnfold/turnfold/keystore"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/event"
)

// lostResult stands in for the result of a success whose body is nowhere. It says no
// more than is known (I11).
const lostResult = "The call succeeded, but its result is no longer available."

// bodyLooks is how often a body is looked for, retryMin apart, before it counts as lost.
const bodyLooks = 10

// settle tells the turn the decided outcome.
func (p *performer) settle(ctx context.Context, j *job, v effect.View, d effect.Decision) error {
	b := &event.CallSettled{Call: j.call, Key: j.key, Outcome: event.Outcome(d.Outcome)}
	if d.Outcome == effect.NotRun {
		// Before the turn is told, so that it stays true even if the log loses its end.
		if err := p.journal.NotRun(context.WithoutCancel(ctx), j.key, j.name); err != nil {
			return faulty(err)
		}
		p.crash.pass(crashWithdrawn)
		return p.tell(ctx, j, b)
	}
	if d.Outcome == effect.Unknown {
		if err := p.asker.note(ctx, j, d.Token); err != nil {
			return err
		}
	}
	t, _ := v.Token(d.Token)
	b.By, b.Why = t.Report.By, t.Report.Why
	b.ErrorClass, b.Replayed = t.Report.ErrorClass, t.Call != j.name
	body, ok, err := p.body(ctx, j.key, t)
	switch {
	case err != nil:
		return err
	case ok:
		b.Result = p.cut(body)
	case d.Outcome == effect.Succeeded:
		b.Result = lostResult
	default:
		b.Result = t.Report.Detail
	}
	return p.tell(ctx, j, b)
}

// settleStored tells the turn of a success that this host remembers.
func (p *performer) settleStored(ctx context.Context, j *job, rep keystore.Report) error {
	t := effect.Token{ID: rep.Token, Call: rep.Call, Report: effect.Fact{BodyDigest: rep.BodyDigest}}
	b := &event.CallSettled{Call: j.call, Key: j.key, Outcome: event.OutcomeSucceeded, Replayed: rep.Call != j.name}
	body, ok := rep.Body, rep.Body != nil
	if !ok {
		var err error
		if body, ok, err = p.body(ctx, j.key, t); err != nil {
			return err
		}
	}
	b.Result = lostResult
	if ok {
		b.Result = p.cut(body)
	}
	return p.tell(ctx, j, b)
}

// body finds the result of a claim: here, else on the log.
func (p *performer) body(ctx context.Context, key string, t effect.Token) ([]byte, bool, error) {
	if t.ID == "" || t.Report.BodyDigest == "" || t.Erased {
		return nil, false, nil
	}
	body, ok, err := p.memory.Body(key, t.ID)
	if err != nil {
		return nil, false, faulty(err)
	}
	if ok {
		return body, true, nil
	}
	for range bodyLooks {
		if body, ok, err = p.bodies.Body(ctx, key, t.ID); err != nil {
			return nil, false, fmt.Errorf("body of %s: %w", key, err)
		}
		// A body is sent before its report; if the connection broke between the two, it is
		// sent again after it.
		if ok || p.clock.Sleep(ctx, retryMin) != nil {
			break
		}
	}
	return body, ok, nil
}

// cut bounds a result for the turn's events. The whole one stays in the effect's body.
func (p *performer) cut(body []byte) string {
	text := strings.ToValidUTF8(string(body), "�")
	if len(text) <= p.resultMax {
		return text
	}
	end := p.resultMax
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%s\n[turnfold: cut here; these are the first %d of %d bytes]", text[:end], end, len(text))
}

// tell publishes the settled event, and then notes that the reports behind it are
// where they belong.
func (p *performer) tell(ctx context.Context, j *job, b *event.CallSettled) error {
	err := p.turns.Settle(ctx, j.turn, b)
	if rejected(err) && b.Result != "" {
		b.Result = "[turnfold: the result was too large for the log and is not shown; the outcome stands]"
		err = p.turns.Settle(ctx, j.turn, b)
	}
	if err != nil {
		if ctx.Err() != nil {
			return errors.Join(errStopped, err)
		}
		return fmt.Errorf("settle %s: %w", j.name, err)
	}
	p.crash.pass(crashSettled)
	p.metrics.settled(j.tool(), b)
	p.logger.Info().Str("turn", j.turn.String()).Int("step", j.step).Str("call", j.call).Str("tool", j.tool()).
		Str("key", j.key).Str("outcome", string(b.Outcome)).Str("error_class", b.ErrorClass).
		Bool("replayed", b.Replayed).Msg("call settled")
	return p.forget(ctx, j)
}

// forget takes this host's reports for the call off the list of what is still to be
// published. Those that the log misses stay on it.
func (p *performer) forget(ctx context.Context, j *job) error {
	if j.success != nil && j.alone {
		return p.outbox.settled(ctx, j.key, effect.Fact{Token: j.success.Token, Outcome: effect.Succeeded})
	}
	own, err := p.memory.Facts(j.key)
	if err != nil {
		return faulty(err)
	}
	var reports []effect.Fact
	for _, f := range own {
		if f.Kind == effect.KindReport && f.Call == j.name {
			reports = append(reports, f)
		}
	}
	if len(reports) == 0 {
		return nil
	}
	if !j.stated { // else they have just been stored there
		facts, _, err := p.log.Facts(ctx, j.key)
		if err != nil {
			return nil // a note that can wait: the call is settled
		}
		if len(missing(facts, reports)) > 0 {
			return nil
		}
	}
	return p.outbox.settled(ctx, j.key, reports...)
}
