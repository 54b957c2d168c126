package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/turnfold/turnfold/reducer/render"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/jet"
)

const (
	tailRetryMin = 100 * time.Millisecond
	tailRetryMax = 2 * time.Second
)

// hub follows the feed lane of every partition, once, and hands items to whoever
// follows their turn. A consumer per reader would be one per browser tab on a server
// that allows a thousand.
//
// Invariant: whoever joined gets every later item of its turn, or is told that it
// must read the log again.
type hub struct {
	conn    *jet.Conn
	log     zerolog.Logger
	metrics *metrics
	door    *admission
	dir     *directory
	parts   []*partition
}

// partition is the readers of one partition.
type partition struct {
	n        int
	mu       sync.Mutex
	readers  map[string]map[*reader]struct{} // by subject
	followed chan struct{}                   // closed once the tail's start is decided
	started  bool
}

func newHub(conn *jet.Conn, partitions int, log zerolog.Logger, m *metrics, door *admission, dir *directory) *hub {
	h := &hub{conn: conn, log: log, metrics: m, door: door, dir: dir}
	for n := range partitions {
		h.parts = append(h.parts, &partition{n: n, readers: map[string]map[*reader]struct{}{}, followed: make(chan struct{})})
	}
	return h
}

// behind counts the partitions that are not followed yet.
func (h *hub) behind() int {
	n := 0
	for _, p := range h.parts {
		select {
		case <-p.followed:
		default:
			n++
		}
	}
	return n
}

func (h *hub) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, p := range h.parts {
		g.Go(func() error { return h.follow(ctx, p) })
	}
	return g.Wait()
}

// follow tails one partition until ctx ends, from the log's end as it was when asked.
func (h *hub) follow(ctx context.Context, p *partition) error {
	stream := subjects.OutputsStream(p.n)
	wait := tailRetryMin
	for ctx.Err() == nil {
		state, err := h.conn.State(ctx, stream)
		if err == nil {
			wait = tailRetryMin
			// From here on the log is read for everything before the tail's start.
			p.restart()
			h.dir.forget()
			filter := []string{subjects.OutLane(p.n, subjects.LaneFeed)}
			err = h.conn.Tail(ctx, stream, filter, state.LastSeq+1, func(m jet.Msg) error {
				h.deliver(p, m)
				return nil
			})
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, jet.ErrClosed):
			return fmt.Errorf("follow partition %d: %w", p.n, err)
		case errors.Is(err, jet.ErrRewound):
			h.metrics.rewinds.Inc()
			h.log.Warn().Err(err).Int("partition", p.n).Msg("outputs have lost their end; readers start again")
			continue
		}
		h.log.Warn().Err(err).Int("partition", p.n).Msg("feed not followed; trying again")
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, tailRetryMax)
	}
	return nil
}

// restart tells every reader that what it got may not be what the log holds, because
// sequences may be used again.
func (p *partition) restart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, readers := range p.readers {
		for r := range readers {
			r.rewound()
		}
	}
	if !p.started {
		p.started = true
		close(p.followed)
	}
}

func (h *hub) deliver(p *partition, m jet.Msg) {
	h.dir.hear(m)
	if h.door.awaited(p.n) {
		if _, t, _, err := subjects.ParseOut(m.Subject); err == nil {
			h.door.began(t)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	readers := p.readers[m.Subject]
	if len(readers) == 0 {
		return
	}
	it, err := render.Read(m.Data)
	if err != nil {
		h.metrics.poisoned.Inc()
		h.log.Error().Err(err).Uint64("seq", m.Seq).Str("subject", m.Subject).Msg("not an item")
		return
	}
	for r := range readers {
		if !r.put(entry{m.Seq, it}) {
			h.metrics.rereads.Inc()
		}
	}
}

// errNotFollowed: the log has not answered since this process started.
var errNotFollowed = errors.New("gateway: feeds are not followed yet")

// join makes a reader of a turn's feed, once the partition is followed.
func (h *hub) join(ctx context.Context, t subjects.Turn) (r *reader, leave func(), err error) {
	p := h.parts[t.Partition(len(h.parts))]
	select {
	case <-p.followed:
	case <-ctx.Done():
		return nil, nil, fmt.Errorf("%w: %w", errNotFollowed, ctx.Err())
	}
	subject := subjects.Out(p.n, t, subjects.LaneFeed)
	r = &reader{wake: make(chan struct{}, 1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.readers[subject] == nil {
		p.readers[subject] = map[*reader]struct{}{}
	}
	p.readers[subject][r] = struct{}{}
	return r, func() { p.leave(subject, r) }, nil
}

func (p *partition) leave(subject string, r *reader) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.readers[subject], r)
	if len(p.readers[subject]) == 0 {
		delete(p.readers, subject)
	}
}
