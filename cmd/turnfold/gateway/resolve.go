package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/jet"
)

// resolveTries bounds how often the facts of a key may change while a person's word is
// put among them.
const resolveTries = 8

// resolution is what a person has found out about an effect.
type resolution struct {
	as              effect.Outcome
	by, why, result string
}

// resolved is the answer of POST /v1/effects/{key}/resolve.
type resolved struct {
	Key     string     `json:"key"`
	Outcome string     `json:"outcome"`
	Told    []toldCall `json:"told"` // calls whose turns have been told
}

type toldCall struct {
	Turn string `json:"turn"`
	Call string `json:"call"`
}

func readResolution(body []byte) (resolution, error) {
	var n resolution
	var as string
	err := members(body, func(d *jsontext.Decoder, name string) error {
		switch name {
		case "as":
			return text(d, name, &as)
		case "by":
			return text(d, name, &n.by)
		case "why":
			return text(d, name, &n.why)
		case "result":
			return text(d, name, &n.result)
		}
		return unknown("", name)
	})
	n.as = effect.Outcome(as)
	wrong := func(field, detail string) error { return fault{http.StatusUnprocessableEntity, field, detail} }
	switch {
	case err != nil:
		return n, err
	case n.as != effect.Succeeded && n.as != effect.Failed:
		return n, wrong("as", "must be succeeded or failed")
	case strings.TrimSpace(n.by) == "":
		return n, wrong("by", "is missing; say who found out")
	case strings.TrimSpace(n.why) == "":
		return n, wrong("why", "is missing; say how that is known")
	case n.result != "" && n.as != effect.Succeeded:
		return n, wrong("result", "is only of an effect that succeeded")
	}
	return n, nil
}

// postResolve takes a person's word for how an unknown effect ended. A known outcome
// never changes (docs/invariants.md, I7); saying it once more only tells those turns
// that have not heard it.
func (g *Gateway) postResolve(w http.ResponseWriter, r *http.Request, tenant string) {
	key := r.PathValue("key")
	if _, err := effect.ParseKey(key); err != nil {
		refuse(w, fault{http.StatusBadRequest, "key", "This is no effect key; keys start with " + effect.KeyPrefix + "."})
		return
	}
	body, err := g.readBody(w, r)
	var n resolution
	if err == nil {
		n, err = readResolution(body)
	}
	var told []toldCall
	if err == nil {
		told, err = g.resolve(r.Context(), tenant, key, n)
	}
	if err != nil {
		g.refuseFor(w, r, err)
		return
	}
	g.cfg.Log.Info().Str("key", key).Str("as", string(n.as)).Str("by", n.by).Int("calls", len(told)).Msg("effect resolved by a person")
	g.answer(w, http.StatusOK, resolved{Key: key, Outcome: string(n.as), Told: told})
}

// resolve puts the word among the facts first and tells the turns second: what a turn
// is told must be what the facts say.
func (g *Gateway) resolve(ctx context.Context, tenant, key string, n resolution) ([]toldCall, error) {
	calls, err := g.doubtful(ctx, tenant, key)
	if err != nil {
		return nil, err
	}
	if err := g.factOf(ctx, tenant, key, n, calls); err != nil {
		return nil, err
	}
	told := []toldCall{}
	for _, c := range calls {
		b := &event.CallSettled{Call: c.call, Key: key, Outcome: event.Outcome(n.as), By: n.by, Why: n.why, Result: n.result}
		if n.as == effect.Failed {
			b.ErrorClass, b.Result = "resolved", n.why
		}
		if err := g.publish(ctx, c.turn, b); err != nil {
			return nil, err
		}
		told = append(told, toldCall{c.turn.ID, c.call})
	}
	return told, nil
}

// doubted is a call whose turn holds its outcome to be unknown.
type doubted struct {
	turn subjects.Turn
	call string
}

// doubtful lists the calls of a key whose turns do not know its outcome: turns that made
// a claim, turns on the list of unknown effects, and open turns.
func (g *Gateway) doubtful(ctx context.Context, tenant, key string) ([]doubted, error) {
	turns, err := g.cfg.Turns.Unknown(ctx, tenant, key)
	if err != nil {
		return nil, err
	}
	view, _, err := g.view(ctx, tenant, key)
	if err != nil {
		return nil, err
	}
	for _, t := range view.Tokens {
		if part := strings.Split(t.Call, "/"); len(part) == 3 {
			turns = append(turns, subjects.Turn{Tenant: tenant, ID: part[1]})
		}
	}
	open, err := g.cfg.Turns.Open(ctx, -1)
	if err != nil {
		return nil, err
	}
	turns = append(turns, slices.DeleteFunc(open, func(t subjects.Turn) bool { return t.Tenant != tenant })...)
	var out []doubted
	seen := map[subjects.Turn]bool{}
	for _, t := range turns {
		if seen[t] {
			continue
		}
		seen[t] = true
		s, err := g.cfg.Turns.Load(ctx, t, 0)
		if err != nil {
			return nil, err
		}
		for _, st := range s.Steps {
			for _, c := range st.Calls {
				if c.Key == key && c.Outcome == event.OutcomeUnknown && !c.Follows() {
					out = append(out, doubted{t, c.ID})
				}
			}
		}
	}
	return out, nil
}

// view joins the facts of a key, which must be the tenant's if there are any.
func (g *Gateway) view(ctx context.Context, tenant, key string) (effect.View, uint64, error) {
	msgs, last, err := g.cfg.Conn.FactsOf(ctx, subjects.KeyPartition(key, g.cfg.Partitions), key)
	if err != nil {
		return effect.View{}, 0, err
	}
	facts := make([]effect.Fact, 0, len(msgs))
	var unreadable error
	for _, m := range msgs {
		f, err := effect.DecodeFact(m.Data)
		if err != nil { // passing over a fact could contradict it
			unreadable = fault{http.StatusConflict, "key", fmt.Sprintf("Fact %d of the key cannot be read: %v", m.Seq, err)}
			continue
		}
		facts = append(facts, f)
	}
	switch {
	case len(msgs) > 0 && !ofTenant(tenant, facts):
		return effect.View{}, 0, noEffect
	case unreadable != nil:
		return effect.View{}, 0, unreadable
	}
	return effect.Join(facts), last, nil
}

// factOf makes the facts of a key say what the person says, by compare-and-set: a word
// that was given on facts which have changed since is not taken.
func (g *Gateway) factOf(ctx context.Context, tenant, key string, n resolution, calls []doubted) error {
	p := subjects.KeyPartition(key, g.cfg.Partitions)
	token := uuid.NewString() // of a claim whose own fact is gone, or never was
	wrote := false
	for range resolveTries {
		view, last, err := g.view(ctx, tenant, key)
		if err != nil {
			return err
		}
		f, done, err := n.next(view, token, calls, wrote)
		if done || err != nil {
			return err
		}
		if n.result != "" {
			sum := sha256.Sum256([]byte(n.result))
			f.BodyDigest = hex.EncodeToString(sum[:])
			if err := g.cfg.Conn.PutBody(ctx, p, key, f.Token, []byte(n.result)); err != nil {
				return err
			}
		}
		_, err = g.cfg.Conn.ClaimFact(ctx, p, key, effect.EncodeFact(f), last)
		if err != nil && !errors.Is(err, jet.ErrConflict) && !errors.Is(err, jet.ErrUnclear) {
			return err
		}
		wrote = wrote || !errors.Is(err, jet.ErrConflict)
	}
	return fault{http.StatusConflict, "key", "The facts of this effect keep changing; look at it and try again."}
}

// next is the fact that is missing for the key to have the outcome; done if none is.
func (n resolution) next(v effect.View, token string, calls []doubted, wrote bool) (f effect.Fact, done bool, err error) {
	f = effect.Fact{Kind: effect.KindReport, Outcome: n.as, By: n.by, Why: n.why}
	if n.as == effect.Failed {
		f.ErrorClass = "resolved"
	}
	known := func(o effect.Outcome) error {
		if o == n.as && (wrote || len(calls) > 0) {
			return nil // at most its turns are still to be told
		}
		return fault{http.StatusConflict, "key", fmt.Sprintf("The outcome is known already: %s. A known outcome never changes.", o)}
	}
	var doubt effect.Token
	failed := false
	for _, t := range v.Tokens {
		switch {
		case t.Open():
			return f, false, fault{http.StatusConflict, "key", "A run of this effect may still be under way; its outcome is not for a person to say yet."}
		case t.Report.Outcome == effect.Failed:
			failed = true
		case t.Report.Outcome != effect.Succeeded && (doubt.ID == "" || doubt.Report.ErrorClass == effect.Interrupted):
			doubt = t
		}
	}
	_, succeeded := v.Succeeded()
	switch {
	case succeeded:
		return f, true, known(effect.Succeeded)
	case doubt.ID != "":
		f.Token, f.Call, f.Generation = doubt.ID, doubt.Call, doubt.Generation
		return f, false, nil
	case failed:
		return f, true, known(effect.Failed)
	case len(calls) == 0:
		return f, false, noEffect
	}
	// A turn ended before anybody had claimed: only the turn is in doubt.
	f.Token, f.Call = token, calls[0].turn.String()+"/"+calls[0].call
	return f, false, nil
}
