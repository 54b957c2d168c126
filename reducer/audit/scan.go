package audit

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/turnfold/turnfold/reducer"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/jet"
)

// Log is a deployment's three logs.
type Log struct {
	Conn       *jet.Conn
	Partitions int
}

// Scan says what of a log to audit.
type Scan struct {
	// Since leaves out what was stored before; zero takes all.
	Since time.Time
	// From takes up an audit that was interrupted, instead of Since.
	From Positions
	// Settled: no owner is at work, so outputs that are due are missing.
	Settled bool
	// Workers is how many partitions are read at the same time. Zero means 2.
	Workers int
	// Each gets every verdict, from one goroutine at a time.
	Each func(Verdict)
	// Progress is called about once a second, if set.
	Progress func(Progress)
}

// Progress is how far an audit has come.
type Progress struct {
	Events, Outputs, Facts, Turns, Bad uint64
	Total                              uint64 // messages to read, as known at the start
	Elapsed                            time.Duration
}

// Rate is the number of events per second.
func (p Progress) Rate() float64 { return float64(p.Events) / max(p.Elapsed.Seconds(), 1e-9) }

// Report is what an audit of a log found.
type Report struct {
	OK         bool             `json:"ok"`
	Turns      uint64           `json:"turns"`
	Mismatches uint64           `json:"mismatches"` // turns with an offence
	Erased     uint64           `json:"erased"`
	Before     uint64           `json:"before"` // turns left out, because they began before the range
	Events     uint64           `json:"events"`
	Outputs    uint64           `json:"outputs"`
	Facts      uint64           `json:"facts"`
	UnderWay   uint64           `json:"under_way"`
	Unasked    uint64           `json:"unasked"` // effects of turns whose asking was lost in a rewind
	Partitions []PartitionCheck `json:"partitions,omitzero"`
	Position   Positions        `json:"position"`
	Seconds    float64          `json:"seconds"`
	EventsPerS float64          `json:"events_per_s"`
}

// PartitionCheck is an offence that is of no one turn.
type PartitionCheck struct {
	Partition int `json:"partition"`
	Check     `json:",inline"`
}

// scanning is one Scan under way.
type scanning struct {
	log   Log
	opts  Scan
	facts *Facts

	mu     sync.Mutex // report, and calls of Each
	report Report
	start  time.Time
	parts  []*Partition

	events, outputs, total atomic.Uint64
}

// All audits whole partitions: EV and OUT are read side by side, in order, once, after
// FX. On an interrupt the report so far comes with the error of ctx, and its Position
// is where to go on.
func (l Log) All(ctx context.Context, opts Scan) (Report, error) {
	s := &scanning{log: l, opts: opts, facts: NewFacts(), start: time.Now(), parts: make([]*Partition, l.Partitions)}
	if s.opts.Workers == 0 {
		s.opts.Workers = 2
	}
	s.report.Position = make(Positions, l.Partitions)
	defer s.tick()()
	err := s.run(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &s.report
	for p, part := range s.parts {
		if part != nil {
			r.Position[p] = part.Position()
			r.Before += part.Before
		} else if opts.From != nil {
			r.Position[p] = opts.From[p]
		}
	}
	r.Events, r.Outputs, r.Facts = s.events.Load(), s.outputs.Load(), s.facts.Count
	r.Seconds = time.Since(s.start).Seconds()
	r.EventsPerS = float64(r.Events) / r.Seconds
	r.OK = r.Mismatches == 0 && len(r.Partitions) == 0
	return *r, err
}

func (s *scanning) run(ctx context.Context) error {
	if s.opts.From != nil && len(s.opts.From) != s.log.Partitions {
		return fmt.Errorf("audit: the position is of %d partitions, the log has %d", len(s.opts.From), s.log.Partitions)
	}
	if err := s.each(ctx, s.readFacts); err != nil {
		return err
	}
	for _, c := range s.facts.bad {
		s.offend(0, c)
	}
	if err := s.each(ctx, s.readPartition); err != nil {
		return err
	}
	return s.unasked(ctx)
}

func (s *scanning) each(ctx context.Context, f func(context.Context, int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(s.opts.Workers)
	for p := range s.log.Partitions {
		g.Go(func() error { return f(ctx, p) })
	}
	return g.Wait()
}

// tick reports progress until it is stopped.
func (s *scanning) tick() (stop func()) {
	if s.opts.Progress == nil {
		return func() {}
	}
	done := make(chan struct{})
	var ended sync.WaitGroup
	say := func() {
		s.facts.mu.Lock()
		facts := s.facts.Count
		s.facts.mu.Unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.opts.Progress(Progress{Events: s.events.Load(), Outputs: s.outputs.Load(), Facts: facts, Turns: s.report.Turns,
			Bad: s.report.Mismatches, Total: s.total.Load(), Elapsed: time.Since(s.start)})
	}
	ended.Go(func() {
		t := time.NewTicker(time.Second)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				say()
			case <-done:
				say()
				return
			}
		}
	})
	return func() { close(done); ended.Wait() }
}

func (s *scanning) offend(p int, c Check) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.Partitions = append(s.report.Partitions, PartitionCheck{p, c})
}

func (s *scanning) verdict(v Verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.UnderWay += uint64(v.UnderWay)
	switch {
	case !v.OK:
		s.report.Mismatches++
	case v.Status == statusErased:
		s.report.Erased++
	}
	s.report.Turns++
	if s.opts.Each != nil {
		s.opts.Each(v)
	}
}

func (s *scanning) readFacts(ctx context.Context, p int) error {
	stream := subjects.EffectsStream(p)
	from, err := s.begin(ctx, stream)
	if err != nil {
		return err
	}
	return s.log.Conn.Scan(ctx, stream, from, 0, func(m jet.Msg) error { return s.facts.Add(p, m) })
}

// begin is where a stream is read from.
func (s *scanning) begin(ctx context.Context, stream string) (uint64, error) {
	if s.opts.Since.IsZero() {
		return 1, nil
	}
	from, err := s.log.Conn.SeqAt(ctx, stream, s.opts.Since)
	if err == nil && from == 0 {
		from = 1<<63 - 1 // nothing that late
	}
	return from, err
}

func (s *scanning) readPartition(ctx context.Context, p int) error {
	notes, err := LoadNotes(ctx, s.log.Conn, p)
	if err != nil {
		return err
	}
	m, err := s.merge(ctx, p)
	if err != nil {
		return err
	}
	part := &Partition{Number: p, Notes: notes, Facts: s.facts, From: m.fromEV, Settled: s.opts.Settled, Each: s.verdict}
	part.init()
	s.parts[p] = part
	s.total.Add(m.total)
	event := func(m jet.Msg) error {
		s.events.Add(1)
		return part.Event(m)
	}
	err = m.run(ctx, event, func(m jet.Msg, stamp reducer.Stamp, err error) error {
		s.outputs.Add(1)
		part.Output(m, stamp, err)
		return nil
	})
	if err != nil {
		return err
	}
	for _, c := range part.Close() {
		s.offend(p, c)
	}
	part.turns = nil // judged: the position is the end
	return nil
}

// unasked looks at the claims that no call asked for: an effect without a finished
// attempt (I5), unless the asking was lost with the end of EV and the rewind says so,
// or the turn is not among those that were read.
func (s *scanning) unasked(ctx context.Context) error {
	whole := s.opts.Since.IsZero() && s.opts.From == nil
	for _, o := range s.facts.orphans() {
		m, ok, err := s.log.Conn.Get(ctx, subjects.EffectsStream(o.part), o.seq)
		if err != nil {
			return err
		}
		fact, err := effect.DecodeFact(m.Data)
		if !ok || err != nil {
			continue
		}
		t, known := turnOf(fact.Call)
		if !known {
			s.offend(o.part, Check{ID: "I5", Stream: streamFX, Seq: o.seq, Detail: "it is made for no call: " + fact.Call})
			continue
		}
		part := s.parts[t.Partition(s.log.Partitions)]
		_, gone := part.Notes.Erased[t.String()]
		seen := part.closed[part.hash(t.Tenant+"."+t.ID)] == closedOver
		switch {
		case gone, !seen && (!whole || part.From > 1 || restoredAny(s.parts)):
		case contains(rewound(part.Notes), t.String()):
			s.report.Unasked++
		default:
			s.offend(o.part, Check{ID: "I5", Stream: streamFX, Seq: o.seq,
				Detail: "no finished attempt asked for the effect of call " + fact.Call})
		}
	}
	return nil
}

func rewound(n *Notes) []string {
	var out []string
	for _, r := range n.Rewinds {
		out = append(out, r.Turns...)
	}
	return out
}

// turnOf is the turn of a call's name in FX, <tenant>/<turn>/<step>.<index>.
func turnOf(call string) (subjects.Turn, bool) {
	part := strings.Split(call, "/")
	if len(part) != 3 || subjects.CheckID("tenant", part[0]) != nil || subjects.CheckID("turn", part[1]) != nil {
		return subjects.Turn{}, false
	}
	return subjects.Turn{Tenant: part[0], ID: part[1]}, true
}
