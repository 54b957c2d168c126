package audit

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/turnfold/turnfold/reducer"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/jet"
)

// Position is where the reading of a partition begins.
type Position struct{ EV, OUT uint64 }

// Positions are of all partitions, written as ev:out,ev:out,….
type Positions []Position

func (p Positions) String() string {
	part := make([]string, len(p))
	for i, x := range p {
		part[i] = strconv.FormatUint(x.EV, 10) + ":" + strconv.FormatUint(x.OUT, 10)
	}
	return strings.Join(part, ",")
}

// MarshalText is the form that ParsePositions reads.
func (p Positions) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// ParsePositions reads what String writes.
func ParsePositions(text string) (Positions, error) {
	var out Positions
	for _, one := range strings.Split(text, ",") {
		ev, o, ok := strings.Cut(one, ":")
		a, err := strconv.ParseUint(ev, 10, 64)
		b, err2 := strconv.ParseUint(o, 10, 64)
		if !ok || err != nil || err2 != nil {
			return nil, fmt.Errorf("audit: %q is no position; write ev:out for each partition, as an audit prints it", one)
		}
		out = append(out, Position{max(a, 1), max(b, 1)})
	}
	return out, nil
}

// merge reads a partition's EV and OUT side by side, in the order of cause and effect:
// before each output the events up to its input.
type merge struct {
	conn                         *jet.Conn
	p                            int
	fromEV, fromOUT, toEV, toOUT uint64
	total                        uint64
}

// merge finds the ends. OUT's end is taken before EV's: what was said then has its
// cause in what is read after.
func (s *scanning) merge(ctx context.Context, p int) (*merge, error) {
	m := &merge{conn: s.log.Conn, p: p}
	var err error
	if m.fromOUT, err = s.begin(ctx, subjects.OutputsStream(p)); err != nil {
		return nil, err
	}
	if m.fromEV, err = s.begin(ctx, subjects.EventsStream(p)); err != nil {
		return nil, err
	}
	if s.opts.From != nil {
		m.fromEV, m.fromOUT = s.opts.From[p].EV, s.opts.From[p].OUT
	}
	return m, m.bounds(ctx)
}

func (m *merge) bounds(ctx context.Context) error {
	out, err := m.conn.State(ctx, subjects.OutputsStream(m.p))
	if err != nil {
		return err
	}
	ev, err := m.conn.State(ctx, subjects.EventsStream(m.p))
	if err != nil {
		return err
	}
	m.toOUT, m.toEV = out.LastSeq, ev.LastSeq
	m.fromEV, m.fromOUT = max(m.fromEV, ev.FirstSeq), max(m.fromOUT, out.FirstSeq) // the rest has aged out
	for _, r := range [][2]uint64{{m.fromEV, m.toEV}, {m.fromOUT, m.toOUT}} {
		if r[1] >= r[0] {
			m.total += r[1] - r[0] + 1
		}
	}
	return nil
}

// chunkMsgs is how many messages change hands at once, and chunksWaiting how many such
// hands of a stream wait: the reader is ahead by that much at most.
const (
	chunkMsgs     = 256
	chunksWaiting = 4
)

// follow reads a stream into chunks. The channel is closed at the end, and only there:
// what was cut off must not look whole.
func (m *merge) follow(ctx context.Context, g *errgroup.Group, stream string, from, to uint64) *pull {
	out := make(chan []jet.Msg, chunksWaiting)
	g.Go(func() error {
		if to < from || to == 0 {
			close(out)
			return nil
		}
		chunk := make([]jet.Msg, 0, chunkMsgs)
		send := func() error {
			select {
			case out <- chunk:
				chunk = make([]jet.Msg, 0, chunkMsgs)
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		err := m.conn.Scan(ctx, stream, from, to, func(msg jet.Msg) error {
			if chunk = append(chunk, msg); len(chunk) == chunkMsgs {
				return send()
			}
			return nil
		})
		if err == nil {
			err = send()
		}
		if err == nil {
			close(out)
		}
		return err
	})
	return &pull{ctx: ctx, in: out}
}

// pull takes messages out of chunks, one by one.
type pull struct {
	ctx  context.Context
	in   <-chan []jet.Msg
	have []jet.Msg
}

// peek is the next message, or nil at the end.
func (p *pull) peek() (*jet.Msg, error) {
	for len(p.have) == 0 {
		select {
		case chunk, ok := <-p.in:
			if !ok {
				return nil, p.ctx.Err()
			}
			p.have = chunk
		case <-p.ctx.Done():
			return nil, p.ctx.Err()
		}
	}
	return &p.have[0], nil
}

func (p *pull) skip() { p.have = p.have[1:] }

// until hands over the messages up to a sequence.
func (p *pull) until(seq uint64, fn func(jet.Msg) error) error {
	for {
		m, err := p.peek()
		if err != nil || m == nil || m.Seq > seq {
			return err
		}
		if err := fn(*m); err != nil {
			return err
		}
		p.skip()
	}
}

// run hands everything over, events and outputs as cause and effect.
func (m *merge) run(ctx context.Context, event func(jet.Msg) error, output func(jet.Msg, reducer.Stamp, error) error) error {
	g, ctx := errgroup.WithContext(ctx)
	ev := m.follow(ctx, g, subjects.EventsStream(m.p), m.fromEV, m.toEV)
	out := m.follow(ctx, g, subjects.OutputsStream(m.p), m.fromOUT, m.toOUT)
	g.Go(func() error {
		err := out.until(1<<64-1, func(o jet.Msg) error {
			stamp, err := reducer.ReadStamp(o)
			if err := ev.until(stamp.In, event); err != nil {
				return err
			}
			return output(o, stamp, err)
		})
		if err != nil {
			return err
		}
		return ev.until(1<<64-1, event)
	})
	return g.Wait()
}
