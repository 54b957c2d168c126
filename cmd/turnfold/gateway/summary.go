package gateway

import (
	"context"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

const (
	// summariesMax is how many summaries are kept; one costs about 1 KiB.
	summariesMax = 20_000
	// summariesAtOnce is how many turns one request reads from the log at a time.
	summariesAtOnce = 4
	// excerptBytes is how much of an answer a list shows.
	excerptBytes = 160
)

// summary is a turn as a list shows it.
type summary struct {
	Turn     string      `json:"turn"`
	Status   fold.Status `json:"status"`
	Finish   string      `json:"finish,omitzero"`
	Salvaged bool        `json:"salvaged,omitzero"`
	Events   int         `json:"events"`
	Steps    int         `json:"steps"`
	// Times are the log's, in milliseconds since 1970; 0 = not yet.
	OpenedMS int64 `json:"opened_ms"`
	FirstMS  int64 `json:"first_ms,omitzero"` // first text of any attempt
	EndedMS  int64 `json:"ended_ms,omitzero"` // completion or error
	LastMS   int64 `json:"last_ms"`
	// Attempts and Calls are the outcomes, in order; open ones are "open", calls that wait
	// for a person "waiting".
	Attempts []attemptMark `json:"attempts"`
	Calls    []string      `json:"calls"`
	Usage    feed.Totals   `json:"usage"`
	Excerpt  string        `json:"excerpt,omitzero"` // of the committed text
}

type attemptMark struct {
	Step    int         `json:"step"`
	Outcome string      `json:"outcome"`
	Class   event.Class `json:"class,omitzero"`
}

// outcomeWaiting is a call's that waits for a person.
const outcomeWaiting = "waiting"

// waits reports whether the turn waits for a person.
func (s *summary) waits() bool { return s.has(outcomeWaiting) }

// doubts reports whether an effect of the turn is unknown.
func (s *summary) doubts() bool { return s.has(string(event.OutcomeUnknown)) }

func (s *summary) has(outcome string) bool {
	for _, c := range s.Calls {
		if c == outcome {
			return true
		}
	}
	return false
}

// summaries remembers what turns came to, as of their last item.
type summaries struct {
	mu   sync.Mutex
	kept map[subjects.Turn]keptSummary
}

// keptSummary holds as long as the turn says nothing new; where something may happen
// that no item tells (an attempt is opened, an unknown effect is resolved), for a moment.
type keptSummary struct {
	seq   uint64
	of    *summary
	until time.Time // zero: no end
}

// summaryFor is how long a summary holds that may change in silence.
const summaryFor = 2 * time.Second

func newSummaries() *summaries { return &summaries{kept: map[subjects.Turn]keptSummary{}} }

func (k *summaries) get(t subjects.Turn, seq uint64) *summary {
	k.mu.Lock()
	defer k.mu.Unlock()
	have, ok := k.kept[t]
	if !ok || have.seq != seq || !have.until.IsZero() && time.Now().After(have.until) {
		return nil
	}
	return have.of
}

func (k *summaries) put(t subjects.Turn, seq uint64, s *summary) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for other := range k.kept {
		if len(k.kept) < summariesMax {
			break
		}
		delete(k.kept, other)
	}
	kept := keptSummary{seq: seq, of: s}
	if still := s.EndedMS > 0 && !s.doubts() || s.waits(); !still {
		kept.until = time.Now().Add(summaryFor)
	}
	k.kept[t] = kept
}

func (k *summaries) drop(t subjects.Turn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.kept, t)
}

// summarise folds a turn. Nil: the log has no event of it any more.
func (g *Gateway) summarise(ctx context.Context, t subjects.Turn, seq uint64) (*summary, error) {
	if s := g.summaries.get(t, seq); s != nil && seq > 0 {
		return s, nil
	}
	state := fold.State{Turn: t}
	out := &summary{Turn: t.ID, Attempts: []attemptMark{}, Calls: []string{}}
	err := g.cfg.Turns.Each(ctx, t, 0, func(e event.Event) error {
		over := state.Over()
		state, _, _ = fold.Guarded(state, e) // what panics is skipped by every process alike
		out.saw(e, !over && state.Over())
		return nil
	})
	if err != nil || state.Status == fold.Absent {
		return nil, err
	}
	v := state.View()
	out.Status, out.Finish, out.Salvaged, out.Steps, out.Usage = v.Status, v.Finish, v.Salvaged, len(v.Steps), v.Usage
	out.Excerpt = excerpt(v.Text)
	for _, st := range v.Steps {
		for _, a := range st.Attempts {
			out.Attempts = append(out.Attempts, attemptMark{st.Step, a.Outcome, a.Class})
		}
		for _, c := range st.Calls {
			switch {
			case c.Waiting != "" && !state.Over():
				out.Calls = append(out.Calls, outcomeWaiting)
			case c.Outcome == "":
				out.Calls = append(out.Calls, outcomeOpen)
			default:
				out.Calls = append(out.Calls, string(c.Outcome))
			}
		}
	}
	g.summaries.put(t, seq, out)
	if !out.waits() && !out.doubts() {
		g.directory.settled(t, seq)
	}
	return out, nil
}

// saw takes the times of an event; ended: the turn was over with it.
func (s *summary) saw(e event.Event, ended bool) {
	s.Events++
	s.LastMS = max(s.LastMS, e.AtMS)
	if s.OpenedMS == 0 {
		s.OpenedMS = e.AtMS
	}
	if _, text := e.Body.(*event.TextDelta); text && s.FirstMS == 0 {
		s.FirstMS = e.AtMS
	}
	if ended {
		s.EndedMS = e.AtMS
	}
}

// summariseAll folds several turns, those gone left out.
func (g *Gateway) summariseAll(ctx context.Context, tenant string, list []listed) ([]*summary, error) {
	all := make([]*summary, len(list))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(summariesAtOnce)
	for i, l := range list {
		work.Go(func() (err error) {
			all[i], err = g.summarise(ctx, subjects.Turn{Tenant: tenant, ID: l.id}, l.seq)
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return nil, err
	}
	out := make([]*summary, 0, len(all))
	for _, s := range all {
		if s != nil {
			out = append(out, s)
		}
	}
	return out, nil
}

// excerpt is the beginning of a text, on one line.
func excerpt(text string) string {
	if len(text) <= excerptBytes {
		return text
	}
	end := excerptBytes
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
