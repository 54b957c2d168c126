package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/reducer/render"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/feed"
	"github.com/turnfold/turnfold/subjects/jet"
)

const (
	// Bounds of what is read from the log at a time for one reader.
	pageItems = 512
	pageBytes = 1 << 20

	// joinTimeout bounds the wait for a log that has not answered since the start.
	joinTimeout = 10 * time.Second
)

// position is where a reader is on a turn's feed.
type position struct {
	seq uint64 // of the last item sent; 0 = before the first
	id  string // of the last item sent
}

// getFeed follows a turn from where the client is.
func (g *Gateway) getFeed(w http.ResponseWriter, r *http.Request, t subjects.Turn) {
	known, err := g.known(r.Context(), t)
	switch {
	case err != nil:
		g.refuseFor(w, r, err)
	case !known:
		refuse(w, fault{http.StatusNotFound, "turn", "No such turn."})
	case r.Method == http.MethodHead:
		w.Header().Set("Content-Type", encoderFor(r).ContentType())
	default:
		v, err := nativeView(r)
		if err == nil {
			err = g.attach(w, r, t, v)
		}
		if err != nil {
			g.refuseFor(w, r, err)
		}
	}
}

// known reports whether a turn has items that can be read, or will have. One that was
// erased has none.
func (g *Gateway) known(ctx context.Context, t subjects.Turn) (bool, error) {
	p := t.Partition(g.cfg.Partitions)
	if _, ok, err := g.cfg.Conn.LastOf(ctx, subjects.OutputsStream(p), subjects.Out(p, t, subjects.LaneFeed)); err != nil || ok {
		return ok, err
	}
	s, err := g.cfg.Turns.Load(ctx, t, 0)
	if err != nil {
		return false, err
	}
	return s.Status != fold.Absent || s.Skipped > 0, readable(&s)
}

// resumeAfter is the id that the client has seen last. Browsers send the header by
// themselves; the parameter is for clients that cannot set headers.
func resumeAfter(r *http.Request) string {
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		return id
	}
	return r.URL.Query().Get("after")
}

// attach follows a turn that exists. A client that has everything of an ended turn
// gets 204, which also stops an EventSource. An error means that nothing was written.
func (g *Gateway) attach(w http.ResponseWriter, r *http.Request, t subjects.Turn, v view) error {
	ctx, cancel := context.WithTimeout(r.Context(), joinTimeout)
	rd, leave, err := g.hub.join(ctx, t)
	cancel()
	if err != nil {
		return err
	}
	defer leave()
	f := &follower{g: g, turn: t, reader: rd, unread: true, compact: v.compact, linger: v.linger}
	after := resumeAfter(r)
	found := true
	if after != "" {
		var complete bool
		id := after
		if last, place, ok := render.CompactPosition(after); ok {
			id, f.folded, f.skip, f.compact = last, last, place+1, true
		}
		if f.at, found, complete, err = g.locate(r.Context(), t, id); err != nil {
			return err
		}
		if complete && f.folded == "" {
			w.WriteHeader(http.StatusNoContent)
			return nil
		}
		if f.folded != "" && found {
			f.until, f.at = f.at.seq, position{}
		} else {
			f.folded, f.skip = "", 0
		}
	}
	s, err := begin(w, t, v, after != "")
	if err != nil {
		return nil // the client has gone
	}
	f.stream = s
	if !found {
		if f.unknownPosition() != nil {
			return nil
		}
	}
	f.run(r.Context())
	return nil
}

// locate finds an id on a turn's feed. Complete: the turn has ended, and nothing
// follows the id.
func (g *Gateway) locate(ctx context.Context, t subjects.Turn, id string) (at position, found, complete bool, err error) {
	p := t.Partition(g.cfg.Partitions)
	stream, subject := subjects.OutputsStream(p), subjects.Out(p, t, subjects.LaneFeed)
	last, ok, err := g.cfg.Conn.LastOf(ctx, stream, subject)
	if err != nil || !ok {
		return position{}, false, false, err
	}
	if it, err := render.Read(last.Data); err == nil && it.ID == id {
		return position{last.Seq, id}, true, render.Ends(it.Body), nil
	}
	_, err = g.readFeed(ctx, stream, subject, 1, last.Seq, func(m jet.Msg) error {
		var head struct {
			ID string `json:"id"`
		}
		if subjects.Open(m.Data, &head) == nil && head.ID == id {
			at, found = position{m.Seq, id}, true
			return errStop
		}
		return nil
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return at, found, false, err
}

var errStop = errors.New("stop")

// follower sends a turn's feed to one client until it ends.
type follower struct {
	g      *Gateway
	turn   subjects.Turn
	reader *reader
	stream *stream
	at     position
	// unread: the log holds items after `at` that the hub will not hand over.
	unread bool
	// ended: the last item sent was the feed's last.
	ended bool
	// posted is when the client posted the turn, if it did.
	posted time.Time

	// compact: the log is sent as what it amounts to. A client that was cut off amid that
	// goes on there: folded is the item up to which the log was folded, at sequence until,
	// and skip how many of the items that came of it the client has.
	compact bool
	folded  string
	until   uint64
	skip    int

	linger    time.Duration // see view
	completed bool          // the turn is over; only its saving is waited for
}

// unknownPosition has the client drop what it shows, and starts from the beginning:
// its position is of another turn, or of an end that the log has lost.
func (f *follower) unknownPosition() error {
	f.at, f.unread = position{}, true
	return f.stream.send(render.Item{Output: feed.Output{ID: "reset.0", Turn: f.turn.ID,
		Body: &feed.Reset{Reason: "unknown position"}}})
}

// run returns when the feed has ended, the client has gone, or the gateway stops.
func (f *follower) run(ctx context.Context) {
	f.g.metrics.feeds.Inc()
	defer f.g.metrics.feeds.Dec()
	ping := time.NewTimer(f.g.cfg.PingEvery)
	defer ping.Stop()
	var lingered <-chan time.Time
	for {
		if f.unread {
			if err := f.readLog(ctx); err != nil {
				f.gaveUp(ctx, err)
				return
			}
			ping.Reset(f.g.cfg.PingEvery)
		}
		if f.ended {
			_ = f.stream.end("") // the client may have gone
			return
		}
		if f.completed && f.linger > 0 && lingered == nil {
			lingered = time.After(f.linger)
		}
		select {
		case <-ctx.Done():
			return
		case <-f.g.stopped:
			_ = f.stream.end(stopped)
			return
		case <-lingered:
			_ = f.stream.end("")
			return
		case <-ping.C:
			if !f.stream.whole && f.stream.ping() != nil {
				return
			}
			ping.Reset(f.g.cfg.PingEvery)
		case <-f.reader.wake:
			if err := f.live(ctx); err != nil {
				f.gaveUp(ctx, err)
				return
			}
			ping.Reset(f.g.cfg.PingEvery)
		}
	}
}

// stopped is told to clients whose protocol has no other way to see that a feed broke off.
const stopped = "The server is stopping; the turn goes on. Connect again."

// gaveUp: the client connects again with its position.
func (f *follower) gaveUp(ctx context.Context, err error) {
	if ctx.Err() == nil {
		f.g.cfg.Log.Debug().Err(err).Str("turn", f.turn.ID).Msg("feed cut")
		_ = f.stream.end(brokenOff)
	}
}

const brokenOff = "The feed broke off; the turn goes on. Connect again."

// live sends what the hub has handed over.
func (f *follower) live(ctx context.Context) error {
	waiting, news := f.reader.take()
	switch news {
	case newsLagged:
		f.unread = true
		return nil
	case newsRewind:
		return f.relocate(ctx)
	}
	return f.send(waiting)
}

// relocate finds the client's position on a log that has changed its end.
func (f *follower) relocate(ctx context.Context) error {
	f.unread = true
	id := f.at.id
	f.at = position{}
	if id == "" {
		return nil
	}
	at, found, complete, err := f.g.locate(ctx, f.turn, id)
	if err != nil {
		return err
	}
	if !found {
		return f.unknownPosition()
	}
	f.at, f.ended = at, complete
	return nil
}

// send sends entries that were not sent before.
func (f *follower) send(entries []entry) error {
	items := make([]render.Item, 0, len(entries))
	for _, e := range entries {
		if e.seq <= f.at.seq {
			continue
		}
		f.at = position{e.seq, e.item.ID}
		f.note(e.item)
		items = append(items, e.item)
	}
	return f.stream.send(items...)
}

// note keeps what an item means for the connection. The feed is over with an item that
// ends it and is not followed by the start of another telling.
func (f *follower) note(it render.Item) {
	switch b := it.Body.(type) {
	case *feed.Reset:
		f.ended = f.ended && it.Step != 0
		f.completed = f.completed && it.Step != 0
	case *feed.TextDelta:
		if !f.posted.IsZero() {
			f.g.metrics.firstDelta.Observe(time.Since(f.posted).Seconds())
			f.posted = time.Time{}
		}
	case *feed.Completion:
		f.completed = true
	default:
		f.ended = f.ended || render.Ends(b)
	}
}
