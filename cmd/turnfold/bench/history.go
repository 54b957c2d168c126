package bench

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/turnfold/turnfold/reducer"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/embed"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/jet"
)

// turnEvents is how many events a turn of the history has, its message.saved included.
const turnEvents = 40

// effectsWaiting bounds the effects that a partition's writer has under way.
const effectsWaiting = 32

// history is a log of turns as streamers and executors write them, with a real reducer
// over it: one broken attempt, one effect, and an answer in each.
type history struct {
	cfg    AuditConfig
	srv    *embed.Server
	conn   *jet.Conn
	cancel context.CancelFunc
	ended  chan error
}

func newHistory(ctx context.Context, dir string, cfg AuditConfig) (*history, error) {
	srv, err := embed.Start(embed.Config{StoreDir: dir, Log: zerolog.Nop()})
	if err != nil {
		return nil, err
	}
	h := &history{cfg: cfg, srv: srv, ended: make(chan error, 1)}
	h.conn, err = jet.Connect(ctx, jet.Config{URL: srv.URL(), User: srv.User(), Password: srv.Password(), Name: "bench", Log: zerolog.Nop()})
	if err == nil {
		err = h.conn.Ensure(ctx, subjects.Layout{Partitions: cfg.Partitions, Replicas: 1})
	}
	var r *reducer.Reducer
	if err == nil {
		r, err = reducer.New(reducer.Config{Conn: h.conn, Partitions: cfg.Partitions, Instance: "bench", Incarnation: "1", Log: zerolog.Nop()})
	}
	if err != nil {
		srv.Shutdown()
		return nil, err
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h.cancel = cancel
	go func() { h.ended <- r.Run(run) }()
	return h, nil
}

func (h *history) close() {
	h.cancel()
	<-h.ended
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = h.conn.Close(ctx)
	h.srv.Shutdown()
}

// write stores the turns, each partition by its own writer, and waits for the reducer.
func (h *history) write(ctx context.Context) error {
	count := max(h.cfg.Events/turnEvents, 1)
	perPartition := make([][]subjects.Turn, h.cfg.Partitions)
	for n := range count {
		t := subjects.Turn{Tenant: "bench", ID: fmt.Sprintf("turn-%08d", n)}
		p := t.Partition(h.cfg.Partitions)
		perPartition[p] = append(perPartition[p], t)
	}
	g, group := errgroup.WithContext(ctx)
	for p, list := range perPartition {
		g.Go(func() error { return h.partition(group, p, list) })
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	return h.wait(ctx, count)
}

func (h *history) partition(ctx context.Context, p int, list []subjects.Turn) error {
	w := h.conn.NewOrderedWriter(subjects.EventsStream(p))
	effects, effectsCtx := errgroup.WithContext(ctx)
	effects.SetLimit(effectsWaiting)
	for i, t := range list {
		bodies, key := turnBodies(t)
		for _, b := range bodies {
			data, err := event.Encode(b)
			if err == nil {
				err = w.Append(ctx, subjects.Events(p, t), data)
			}
			if err != nil {
				return err
			}
		}
		effects.Go(func() error { return h.effect(effectsCtx, t, key) })
		if i%paceTurns == paceTurns-1 {
			if err := errors.Join(w.Flush(ctx), h.keepUp(ctx, p)); err != nil {
				return err
			}
		}
		if p == 0 && i%100 == 0 {
			fmt.Fprintf(h.cfg.Progress, "\rwriting %d%% ", i*100/len(list))
		}
	}
	if err := errors.Join(effects.Wait(), w.Flush(ctx)); err != nil {
		return err
	}
	return w.Close(ctx)
}

// paceTurns is how many turns are written at a time, and lagMax how many events the
// reducer may be behind then: real writers are not ahead of it either, because they
// wait for its commands, and a reducer that is far behind saves messages again.
const (
	paceTurns = 50
	lagMax    = 1000
)

// keepUp waits for a partition's reducer.
func (h *history) keepUp(ctx context.Context, p int) error {
	for ctx.Err() == nil {
		ev, err := h.conn.State(ctx, subjects.EventsStream(p))
		if err != nil {
			return err
		}
		last, ok, err := h.conn.LastOf(ctx, subjects.OutputsStream(p), ">")
		if err != nil {
			return err
		}
		if stamp, err := reducer.ReadStamp(last); ok && err == nil && stamp.In+lagMax >= ev.LastSeq {
			return nil
		}
		time.Sleep(2 * time.Millisecond)
	}
	return ctx.Err()
}

const resultText = `{"ticket":"T-1","state":"open"}`

func (h *history) effect(ctx context.Context, t subjects.Turn, key string) error {
	sum := sha256.Sum256([]byte(resultText))
	call, token := t.String()+"/1.0", "tok-"+t.ID
	q := subjects.KeyPartition(key, h.cfg.Partitions)
	for _, f := range []effect.Fact{{Kind: effect.KindClaim, Token: token, Call: call, Host: "bench"},
		{Kind: effect.KindReport, Token: token, Call: call, Host: "bench", Outcome: effect.Succeeded, BodyDigest: hex.EncodeToString(sum[:])}} {
		if f.Kind == effect.KindReport {
			if err := h.conn.PutBody(ctx, q, key, token, []byte(resultText)); err != nil {
				return err
			}
		}
		if err := h.conn.AppendFact(ctx, q, key, effect.EncodeFact(f)); err != nil {
			return err
		}
	}
	return nil
}

// turnBodies are a turn's events but for the last, which the reducer writes, and the
// key of its effect.
func turnBodies(t subjects.Turn) ([]event.Body, string) {
	args := `{"customer":"` + t.ID + `","text":"The parcel is late."}`
	identity, _ := effect.IdentityOf(args, effect.Identity{Fields: []string{"customer"}})
	key := effect.Meaning{Tenant: t.Tenant, Scope: t.ID, Tool: "ticket", Identity: identity}.Key()
	out := []event.Body{&event.TurnOpened{At: "2026-01-02T03:04:05Z", Digest: "d", Route: "default", Rules: event.Rules,
		Messages: []event.Message{{Role: "user", Content: "My parcel is late."}},
		Entries:  []event.Entry{{Provider: "main", API: "openai-chat", Model: "m"}},
		Tools:    []event.Tool{{Name: "ticket", Effect: "keyed", Identity: []string{"customer"}, Repeat: "never", TimeoutMS: 10_000, Cap: 2}},
		Policy: event.Policy{AttemptsPerStep: 3, AttemptsPerTurn: 8, BackoffBaseMS: 500, BackoffMaxMS: 20_000, AfterText: "reset",
			CallsPerTurn: 64, DeadlineMS: 3_600_000, AliveMS: 600_000, PatienceMS: 3_600_000}}}
	attempt := func(step, n, words int, end func(event.At) []event.Body) {
		at := event.At{Step: step, Attempt: n, Token: fmt.Sprintf("%s-%d-%d", t.ID, step, n)}
		out = append(out, &event.AttemptStarted{Step: step, Attempt: n, Token: at.Token, Provider: "main", API: "openai-chat", Model: "m", Instance: "bench"})
		for range words {
			out = append(out, &event.TextDelta{At: at, Text: "some words of an answer "})
			at.Ord++
		}
		out = append(out, end(at)...)
	}
	usage := event.Usage{Input: 40, Output: 20}
	attempt(1, 1, 8, func(at event.At) []event.Body {
		return []event.Body{&event.AttemptFailed{At: at, Class: event.Connection, Retryable: true, Usage: usage}}
	})
	attempt(1, 2, 10, func(at event.At) []event.Body {
		call := &event.CallDelta{At: at, ID: "c1", Name: "ticket", Args: args}
		at.Ord++
		return []event.Body{call, &event.AttemptFinished{At: at, Finish: "tool_calls", Usage: usage}}
	})
	out = append(out, &event.CallSettled{Call: "1.0", Key: key, Outcome: event.OutcomeSucceeded, Result: resultText})
	attempt(2, 1, turnEvents-len(out)-3, func(at event.At) []event.Body {
		return []event.Body{&event.AttemptFinished{At: at, Finish: "stop", Usage: usage}}
	})
	return out, key
}

// quiet is how long the logs stand still before the history is taken for whole.
const quiet = time.Second

// wait returns when every turn's last output is stored: when nothing is written any
// more. The owner may have saved a message twice, so events are not counted exactly.
func (h *history) wait(ctx context.Context, turns int) error {
	var before uint64
	since := time.Now()
	for {
		var events, outputs uint64
		for p := range h.cfg.Partitions {
			ev, err := h.conn.State(ctx, subjects.EventsStream(p))
			if err != nil {
				return err
			}
			out, err := h.conn.State(ctx, subjects.OutputsStream(p))
			if err != nil {
				return err
			}
			events, outputs = events+ev.Msgs, outputs+out.Msgs
		}
		if events+outputs != before {
			before, since = events+outputs, time.Now()
		}
		fmt.Fprintf(h.cfg.Progress, "\rfolding: %d events, %d outputs ", events, outputs)
		if events >= uint64(turns*turnEvents) && time.Since(since) > quiet {
			fmt.Fprintln(h.cfg.Progress)
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-h.ended:
			h.ended <- err
			return fmt.Errorf("the reducer ended: %w", err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
