package browser

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/turnfold/turnfold/cmd/turnfold/gateway"
	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/embed"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
	"github.com/turnfold/turnfold/subjects/jet"
)

const (
	bulkPartitions = 2
	bulkTurns      = 10_000
	bulkEvents     = 5_000 // of one turn
	bulkTenant     = "acme"
	bulkToken      = "t0ken-of-acme"
)

// TestBulk: a list of 10,000 turns and a turn of 5,000 events cost the browser a bounded
// number of elements, wherever one looks. The server asks for a token, which the page
// asks the person for.
func TestBulk(t *testing.T) {
	t.Parallel()
	base := bulkWorld(t)
	var r struct {
		clean
		Total                                     string
		ListNodes, EndNodes, TurnNodes, LogNodes  int
		Deep, Refused                             string
		First, Last                               int // places of what is selected
		Events, Items, Pestered                   int
		Stored                                    []string
		ListMS, ScrollMS, TurnMS, ScrubMS, LongMS float64
	}
	drive(t, "bulk", &r, base, bulkToken)
	r.check(t)
	t.Logf("list of %d turns: shown after %.0f ms, its end after %.0f ms, %d elements; turn of %d events: %.0f ms, a step of the scrubber %.0f ms, %d elements; longest task %.0f ms",
		bulkTurns, r.ListMS, r.ScrollMS, r.ListNodes, r.Events, r.TurnMS, r.ScrubMS, r.TurnNodes, r.LongMS)
	if r.Total != "10,000 turns" || r.First != 1 || r.Last != bulkTurns || !strings.HasPrefix(r.Deep, "turn-") {
		t.Errorf("the list says %q, from %d over %q to %d", r.Total, r.First, r.Deep, r.Last)
	}
	if r.Events != bulkEvents || r.Items < bulkEvents-10 {
		t.Errorf("the turn has %d events, %d items", r.Events, r.Items)
	}
	for what, n := range map[string]int{"list": r.ListNodes, "end of the list": r.EndNodes, "turn": r.TurnNodes, "end of the log": r.LogNodes} {
		if n > 1500 || n < 50 {
			t.Errorf("%s: %d elements", what, n)
		}
	}
	if r.Refused != "The token was refused. Give another one." {
		t.Errorf("a wrong token is answered with %q", r.Refused)
	}
	if r.Pestered != 0 {
		t.Error("who gave no token is asked again")
	}
	if len(r.Stored) != 1 || r.Stored[0] != "turnfold.token" {
		t.Errorf("kept in the tab: %v", r.Stored)
	}
}

// bulkWorld is a gateway over a log that has many turns, written as a reducer would.
func bulkWorld(t *testing.T) string {
	t.Helper()
	srv, err := embed.Start(embed.Config{StoreDir: t.TempDir(), Log: zerolog.Nop()})
	must(t, err)
	t.Cleanup(srv.Shutdown)
	ctx, cancel := context.WithCancel(context.Background())
	conn, err := jet.Connect(ctx, jet.Config{URL: srv.URL(), User: srv.User(), Password: srv.Password(), Log: zerolog.Nop()})
	must(t, err)
	must(t, conn.Ensure(ctx, subjects.Layout{Partitions: bulkPartitions, Replicas: 1}))
	began := time.Now()
	must(t, writeTurns(ctx, conn))
	t.Logf("%d turns are written after %s", bulkTurns, time.Since(began).Round(time.Millisecond))
	g, err := gateway.New(gateway.Config{Conn: conn, Turns: turns.NewReader(conn, bulkPartitions), Partitions: bulkPartitions, Log: zerolog.Nop(),
		Tokens: map[string]string{bulkToken: bulkTenant}})
	must(t, err)
	var wg sync.WaitGroup
	wg.Go(func() { _ = g.Run(ctx) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	hs := &http.Server{Handler: g.Handler()}
	wg.Go(func() { _ = hs.Serve(l) })
	t.Cleanup(func() {
		cancel()
		must(t, hs.Close())
		must(t, conn.Close(context.Background()))
		wg.Wait()
	})
	return "http://" + l.Addr().String()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// writeTurns writes the turns of each partition in order, by one writer a stream.
func writeTurns(ctx context.Context, conn *jet.Conn) error {
	work, ctx := errgroup.WithContext(ctx)
	for p := range bulkPartitions {
		work.Go(func() error {
			w := &bulkWriter{p: p, ev: conn.NewOrderedWriter(subjects.EventsStream(p)), out: conn.NewOrderedWriter(subjects.OutputsStream(p))}
			for n := range bulkTurns {
				turn := subjects.Turn{Tenant: bulkTenant, ID: fmt.Sprintf("turn-%05d", n)}
				words := 1
				if n == bulkTurns-2 {
					words = bulkEvents - 4
				}
				if turn.Partition(bulkPartitions) == p {
					if err := w.turn(ctx, turn, words); err != nil {
						return err
					}
				}
			}
			return errors.Join(w.ev.Flush(ctx), w.out.Flush(ctx), w.ev.Close(ctx), w.out.Close(ctx))
		})
	}
	return work.Wait()
}

// bulkWriter is a streamer and a reducer in one.
type bulkWriter struct {
	p       int
	seq     uint64
	ev, out *jet.OrderedWriter
}

// turn writes a turn of 4 events beside its words.
func (w *bulkWriter) turn(ctx context.Context, t subjects.Turn, words int) error {
	at := event.At{Step: 1, Attempt: 1, Token: t.ID}
	list := []event.Body{
		&event.TurnOpened{Digest: "d", Route: "default", Rules: event.Rules, Messages: []event.Message{{Role: "user", Content: "Hi"}},
			Entries: []event.Entry{{Provider: "main", API: "openai-chat", Model: "m"}}, Policy: event.Policy{AttemptsPerStep: 2, AttemptsPerTurn: 4, CallsPerTurn: 8}},
		&event.AttemptStarted{Step: 1, Attempt: 1, Token: t.ID, Provider: "main", Model: "m"}}
	for range words {
		list = append(list, &event.TextDelta{At: at, Text: "word "})
		at.Ord++
	}
	list = append(list, &event.AttemptFinished{At: at, Finish: "stop", Usage: event.Usage{Input: 10, Output: int64(words)}}, &event.MessageSaved{MessageID: "m-" + t.ID})
	s := fold.State{Turn: t}
	for _, b := range list {
		data, err := event.Encode(b)
		if err == nil {
			err = w.ev.Append(ctx, subjects.Events(w.p, t), data)
		}
		if err != nil {
			return err
		}
		w.seq++
		var outs []feed.Output
		s, outs = fold.Apply(s, event.Event{Turn: t, Seq: w.seq, Body: b})
		for _, o := range outs {
			if o.Body.Lane() != subjects.LaneFeed {
				continue
			}
			data, err := feed.Encode(o)
			if err == nil {
				err = w.out.Append(ctx, subjects.Out(w.p, t, subjects.LaneFeed), data)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
