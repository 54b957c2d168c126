package audit

import (
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"

	"github.com/turnfold/turnfold/reducer"
	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/jet"
)

// Partition audits one partition's EV and OUT side by side. Only turns that are not
// over are in memory; of the others some 20 bytes are, by which a late word of theirs
// is known.
type Partition struct {
	// Number is the partition's. Notes and Facts are complete before the first message.
	Number int
	Notes  *Notes
	Facts  *Facts
	// From is the first sequence of EV that is read; turns that were opened before it
	// cannot be derived, and are left out.
	From uint64
	// Settled: nothing is under way, so what has not been said is missing.
	Settled bool
	// Excerpt: only some turns are read, so gaps in the sequences mean nothing.
	Excerpt bool
	// Each gets every verdict, when its turn is over or at the end.
	Each func(Verdict)

	Events, Outputs, Before uint64

	turns    map[string]*turnAudit // by "<tenant>.<turn>"
	closed   map[uint64]byte
	seed     maphash.Seed
	evAt     uint64 // last sequence read
	outAt    uint64
	in       uint64 // input of the last output
	epoch    uint64
	lastNote uint64
	// how many sequences had no message
	missingEV, missingOUT uint64
	chained               bool
	found                 offences
}

// how a turn that is not in memory is known.
const (
	closedOver   = 1 // judged
	closedBefore = 2 // opened before the range
)

func (p *Partition) init() {
	if p.turns == nil {
		p.turns, p.closed, p.seed = map[string]*turnAudit{}, map[uint64]byte{}, maphash.MakeSeed()
	}
}

func (p *Partition) hash(name string) uint64 { return maphash.String(p.seed, name) }

// Event takes in the next message of EV. It fails only with what is newer than this
// binary.
func (p *Partition) Event(m jet.Msg) error {
	p.init()
	p.Events++
	p.order(streamEV, m.Seq, &p.evAt)
	name, ok := turnName(m.Subject, "tf.ev.")
	if !ok {
		p.found.add("I8", streamEV, m.Seq, "%s is no subject of a turn", m.Subject)
		return nil
	}
	a := p.turns[name]
	if a == nil {
		switch p.closed[p.hash(name)] {
		case closedBefore:
			return nil
		case closedOver:
			return p.late(m)
		}
		_, t, err := subjects.ParseEvents(m.Subject)
		if err != nil {
			p.found.add("I8", streamEV, m.Seq, "%v", err)
			return nil
		}
		if _, gone := p.Notes.Erased[t.String()]; gone {
			return nil // a last word that came after
		}
		a = newTurnAudit(t, p.Notes)
		a.firstEV, a.outAt = m.Seq, p.outAt
		p.turns[strings.Clone(name)] = a
	}
	e, err := turns.Decode(a.turn, m)
	if errors.Is(err, subjects.ErrNewer) {
		return fmt.Errorf("event %d of partition %d: %w", m.Seq, p.Number, err)
	}
	if _, opens := e.Body.(*event.TurnOpened); a.events == 0 && !opens && p.From > 1 {
		p.Before++
		p.closed[p.hash(name)] = closedBefore
		delete(p.turns, name)
		return nil
	}
	a.event(e)
	p.close(name, a)
	return nil
}

// order notes a break in a stream's sequences. Erased turns leave gaps, but no more
// messages may be missing than their tombstones count.
func (p *Partition) order(stream string, seq uint64, at *uint64) {
	if seq <= *at {
		p.found.add("I9", stream, seq, "it comes after %d", *at)
	}
	if *at != 0 && seq > *at+1 && !p.Excerpt {
		missing, gone, restored := &p.missingEV, p.Notes.goneEvents, p.Notes.Restored.Events
		if stream == streamOUT {
			missing, gone, restored = &p.missingOUT, p.Notes.goneOutputs, p.Notes.Restored.Outputs
		}
		if seq <= restored {
			*at = seq
			return
		}
		if *missing += seq - *at - 1; *missing > uint64(gone()) {
			p.found.add("I9", stream, *at+1, "messages %d to %d are missing", *at+1, seq-1)
		}
	}
	*at = seq
}

// turnName is the part of a subject that names the turn: <prefix><partition>.<name>.
func turnName(subject, prefix string) (string, bool) {
	rest, ok := strings.CutPrefix(subject, prefix)
	if !ok {
		return "", false
	}
	dot := strings.IndexByte(rest, '.')
	return rest[dot+1:], dot > 0
}

// close judges a turn that is over.
func (p *Partition) close(name string, a *turnAudit) {
	if !a.over() {
		return
	}
	p.Each(a.judge(p.Facts, p.in, p.Settled))
	p.closed[p.hash(name)] = closedOver
	delete(p.turns, name)
}

// late looks at an event of a turn that is over. The fold ignores all of them but an
// outcome that becomes known.
func (p *Partition) late(m jet.Msg) error {
	_, t, err := subjects.ParseEvents(m.Subject)
	if err != nil {
		return nil
	}
	body, err := event.Decode(m.Data)
	if errors.Is(err, subjects.ErrNewer) {
		return fmt.Errorf("event %d of partition %d: %w", m.Seq, p.Number, err)
	}
	if b, ok := body.(*event.CallSettled); ok && err == nil {
		var found offences
		p.Facts.late(t, m.Seq, b, &found)
		p.report(t, found)
	}
	return nil
}

// report is a verdict on a turn that had one already.
func (p *Partition) report(t subjects.Turn, found offences) {
	if len(found) > 0 {
		p.Each(Verdict{Turn: t.ID, Tenant: t.Tenant, Status: "over", Invariants: found.list()})
	}
}

// Output takes in the next message of OUT. Every event up to its input has been taken
// in before.
func (p *Partition) Output(m jet.Msg, stamp reducer.Stamp, err error) {
	p.init()
	p.Outputs++
	p.order(streamOUT, m.Seq, &p.outAt)
	if err != nil {
		p.found.add("I8", streamOUT, m.Seq, "%v", err)
		return
	}
	p.stamp(m, stamp)
	if m.Subject == subjects.OutPosition(p.Number) {
		return // taken in with the notes
	}
	at, t, lane, err := subjects.ParseOut(m.Subject)
	if err == nil && at != p.Number {
		err = fmt.Errorf("%s does not lie in partition %d", m.Subject, p.Number)
	}
	if err != nil {
		p.found.add("I8", streamOUT, m.Seq, "%v", err)
		return
	}
	name := t.Tenant + "." + t.ID
	if a := p.turns[name]; a != nil {
		a.output(m, lane, stamp, p.chained)
		p.close(name, a)
		return
	}
	_, gone := p.Notes.Erased[t.String()]
	switch {
	case gone, p.closed[p.hash(name)] == closedBefore, p.From > 1 && stamp.In < p.From, p.takenBack(t, stamp):
		return
	}
	var found offences
	found.add("I8", streamOUT, m.Seq, "no event explains this output")
	p.report(t, found)
}

// takenBack reports whether a later rewind took an output back whose turn has no event
// any more.
func (p *Partition) takenBack(t subjects.Turn, stamp reducer.Stamp) bool {
	for _, r := range p.Notes.Rewinds {
		if slices.Contains(r.Turns, t.String()) && stamp.Epoch <= r.Epoch {
			return true
		}
	}
	return false
}

// stamp checks what does not depend on the turn: inputs never go back but by a rewind,
// and rewinds are counted.
func (p *Partition) stamp(m jet.Msg, s reducer.Stamp) {
	if s.Chain != "" {
		p.chained = true
	}
	if s.Epoch < p.epoch || s.Epoch > p.Notes.Rewinds.Latest() {
		p.found.add("I8", streamOUT, m.Seq, "it is of rewind %d, after %d", s.Epoch, p.epoch)
	}
	if s.In < p.in && s.Epoch == p.epoch && !s.Rewind {
		p.found.add("I9", streamOUT, m.Seq, "it comes from event %d, after an output of event %d", s.In, p.in)
	}
	p.in, p.epoch = s.In, max(p.epoch, s.Epoch)
}

// Position is where another audit may start that is to see every turn that this one has
// not judged.
func (p *Partition) Position() Position {
	pos := Position{EV: p.evAt + 1, OUT: p.outAt + 1}
	for _, a := range p.turns {
		pos.EV, pos.OUT = min(pos.EV, a.firstEV), min(pos.OUT, a.outAt+1)
	}
	return pos
}

// Close judges the turns that are not over, and gives the verdict on the partition
// itself.
func (p *Partition) Close() []Check {
	p.init()
	names := make([]string, 0, len(p.turns))
	for name := range p.turns {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		p.Each(p.turns[name].judge(p.Facts, p.in, p.Settled))
	}
	for _, name := range slices.Sorted(maps.Keys(p.Notes.Erased)) {
		tenant, id, _ := strings.Cut(name, "/")
		p.Each(erased(subjects.Turn{Tenant: tenant, ID: id}))
	}
	var out []Check
	for _, c := range p.found.list() {
		if !c.OK {
			out = append(out, c)
		}
	}
	return out
}
