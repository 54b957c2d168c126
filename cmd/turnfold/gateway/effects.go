package gateway

import (
	"context"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/effect"
)

// effectView is the answer of GET /v1/effects/{key}: what the facts of a key mean
// together, and the facts themselves.
type effectView struct {
	Key string `json:"key"`
	// Outcome is the key's: succeeded once any claim has, else unknown while any claim
	// may have, else failed; open while a claim runs.
	Outcome  string       `json:"outcome"`
	Conflict bool         `json:"conflict"`
	Claims   []claimView  `json:"claims"`
	NotRun   []string     `json:"not_run"`
	Result   string       `json:"result,omitzero"`
	Facts    []factOfView `json:"facts"`
}

type claimView struct {
	Token      string `json:"token"`
	Call       string `json:"call"`
	Host       string `json:"host,omitzero"`
	Outcome    string `json:"outcome"` // open while it runs
	ErrorClass string `json:"error_class,omitzero"`
	Detail     string `json:"detail,omitzero"`
	By         string `json:"by,omitzero"` // who reported, if not whoever ran
	Why        string `json:"why,omitzero"`
}

type factOfView struct {
	Seq     uint64 `json:"seq"`
	At      string `json:"at"`
	Kind    string `json:"kind"`
	Token   string `json:"token,omitzero"`
	Call    string `json:"call,omitzero"`
	Host    string `json:"host,omitzero"`
	Outcome string `json:"outcome,omitzero"`
}

const outcomeOpen = "open"

// noEffect is the answer also about another tenant's effect: who asks must not learn that
// there is one.
var noEffect = fault{http.StatusNotFound, "key", "Nothing is known of this effect."}

// ofTenant says whether the facts of a key are a tenant's. A key is a hash over its tenant
// among others, so they are all of one; the call that a fact names begins with it.
func ofTenant(tenant string, facts []effect.Fact) bool {
	named := false
	for _, f := range facts {
		if f.Call == "" {
			continue
		}
		if !strings.HasPrefix(f.Call, tenant+"/") {
			return false
		}
		named = true
	}
	return named
}

// getEffect shows a key to the tenant whose effect it is.
func (g *Gateway) getEffect(w http.ResponseWriter, r *http.Request, tenant string) {
	key := r.PathValue("key")
	if _, err := effect.ParseKey(key); err != nil {
		refuse(w, fault{http.StatusBadRequest, "key", "This is no effect key; keys start with " + effect.KeyPrefix + "."})
		return
	}
	out, known, err := g.effectOf(r.Context(), tenant, key)
	switch {
	case err != nil:
		g.refuseFor(w, r, err)
	case !known:
		refuse(w, noEffect)
	default:
		g.answer(w, http.StatusOK, out)
	}
}

// emptyEffect is a key that nothing is known of.
func emptyEffect(key string) effectView {
	return effectView{Key: key, Claims: []claimView{}, NotRun: []string{}, Facts: []factOfView{}}
}

// effectOf reads the facts of a key; known is false if there are none that are this
// tenant's.
func (g *Gateway) effectOf(ctx context.Context, tenant, key string) (out effectView, known bool, err error) {
	p := subjects.KeyPartition(key, g.cfg.Partitions)
	out = emptyEffect(key)
	msgs, _, err := g.cfg.Conn.FactsOf(ctx, p, key)
	if err != nil || len(msgs) == 0 {
		return out, false, err
	}
	facts := make([]effect.Fact, 0, len(msgs))
	for _, m := range msgs {
		f, err := effect.DecodeFact(m.Data)
		if err != nil {
			g.cfg.Log.Error().Err(err).Str("key", key).Uint64("seq", m.Seq).Msg("not a fact")
			f = effect.Fact{Kind: "unreadable"} // of no call
		}
		facts = append(facts, f)
		out.Facts = append(out.Facts, factOfView{Seq: m.Seq, At: m.Time.UTC().Format(time.RFC3339Nano),
			Kind: string(f.Kind), Token: f.Token, Call: f.Call, Host: f.Host, Outcome: string(f.Outcome)})
	}
	if !ofTenant(tenant, facts) {
		return emptyEffect(key), false, nil
	}
	view := effect.Join(facts)
	out.join(view)
	if t, ok := view.Succeeded(); ok && t.Report.BodyDigest != "" {
		body, ok, err := g.cfg.Conn.Body(ctx, p, key, t.ID)
		if err != nil {
			return out, true, err
		}
		if ok && utf8.Valid(body) {
			out.Result = string(body)
		}
	}
	return out, true, nil
}

func (v *effectView) join(joined effect.View) {
	v.Conflict = joined.Conflict
	v.NotRun = append(v.NotRun, joined.NotRun...)
	open, unknown, failed := false, false, false
	for _, t := range joined.Tokens {
		c := claimView{Token: t.ID, Call: t.Call, Host: t.Host, Outcome: string(t.Report.Outcome),
			ErrorClass: t.Report.ErrorClass, Detail: t.Report.Detail, By: t.Report.By, Why: t.Report.Why}
		switch {
		case t.Open():
			c.Outcome, open = outcomeOpen, true
		case t.Report.Outcome == effect.Failed:
			failed = true
		default:
			unknown = true
		}
		v.Claims = append(v.Claims, c)
	}
	_, succeeded := joined.Succeeded()
	switch {
	case succeeded:
		v.Outcome = string(effect.Succeeded)
	case open:
		v.Outcome = outcomeOpen
	case unknown:
		v.Outcome = string(effect.Unknown)
	case failed:
		v.Outcome = string(effect.Failed)
	default:
		v.Outcome = string(effect.NotRun)
	}
}
