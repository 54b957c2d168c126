package audit

import (
	"bytes"

	"github.com/turnfold/turnfold/reducer"
	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
	"github.com/turnfold/turnfold/subjects/jet"
)

// names of the streams in a Check.
const (
	streamEV  = "EV"
	streamOUT = "OUT"
	streamFX  = "FX"
)

// wanted is an output as it must be.
type wanted struct {
	out  feed.Output
	data []byte
	origin
}

// origin is where an output must come from: a reducer.Stamp whose sums are not spelled
// out, as most are only compared. The epoch is not in it: that is the partition's.
type origin struct {
	in     uint64
	index  int
	sum    event.Sum // of the input
	chain  event.Sum
	linked bool // the turn has a chain
	whole  bool
	rewind bool // then the sum is of the partition's input, which may be another turn's
}

// stamp is the origin as a message's headers have it, as far as it says what got says
// of what it leaves open.
func (o origin) stamp(got reducer.Stamp) reducer.Stamp {
	s := reducer.Stamp{In: o.in, Index: o.index, Whole: o.whole, Digest: got.Digest, Epoch: got.Epoch, Rewind: o.rewind}
	if !o.rewind {
		s.Digest = o.sum.String()
	}
	if o.linked {
		s.Chain = o.chain.String()
	}
	return s
}

// fits reports whether a message says that it comes from there.
func (o origin) fits(got reducer.Stamp) bool {
	return got.In == o.in && got.Index == o.index && got.Whole == o.whole && got.Rewind == o.rewind &&
		(o.rewind || o.sum.Spells(got.Digest)) && (o.linked && o.chain.Spells(got.Chain) || !o.linked && got.Chain == "")
}

// turnAudit follows one turn: its events go in, what must have been said of them waits
// in want until the outputs come.
type turnAudit struct {
	turn    subjects.Turn
	state   fold.State
	notes   *Notes
	firstEV uint64 // where an audit must start again that is to see all of the turn
	outAt   uint64 // last output of the partition before its first event

	// A turn that was taken back is derived as it was told again after the last rewind:
	// a reset, its feed up to the rewind, its pending commands, and then the rest.
	retold  reducer.Rewind
	rewound bool
	pending bool // its commands of the rewind are still to be derived
	aside   int  // outputs of the rewind itself
	rewinds int

	want     []wanted
	broken   bool // an output was not the one that must be: the rest cannot be held against it
	events   int
	outputs  int
	previous []byte // the last output that was right
	unlinked uint64 // an output without a chain
	eyes     watcher
	source   source
	found    offences
}

func newTurnAudit(t subjects.Turn, notes *Notes) *turnAudit {
	a := &turnAudit{turn: t, state: fold.State{Turn: t}, notes: notes}
	a.eyes.found, a.source.found = &a.found, &a.found
	for _, r := range notes.Rewinds {
		if contains(r.Turns, t.String()) {
			a.retold, a.rewound = r, true
			a.rewinds++
		}
	}
	a.pending = a.rewound
	if a.rewound {
		a.expectAside(feed.Output{Turn: t.ID, Body: &feed.Reset{Reason: "rewind"}})
	}
	return a
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// event folds an event and notes what must have been said of it.
func (a *turnAudit) event(e event.Event) {
	a.events++
	if a.pending && e.Seq > a.retold.To {
		a.flush()
	}
	before := a.state.Status
	a.state.Epoch = a.notes.Rewinds.Epoch(a.turn, e.Seq)
	outputs, _ := a.state.Take(e) // what panics is skipped by every process alike
	a.source.see(e, before)
	for i, o := range outputs {
		from := origin{in: e.Seq, index: i, sum: e.Sum, chain: a.state.Chain, linked: a.state.Opened != nil}
		if a.pending {
			if o.Body.Lane() != subjects.LaneFeed {
				continue
			}
			from = a.retelling()
		}
		a.expect(o, from)
	}
}

func (a *turnAudit) retelling() origin {
	return origin{in: a.retold.To, whole: true, chain: a.state.Chain, linked: a.state.Opened != nil, rewind: true}
}

// flush notes the commands that were pending at the rewind: they went out again after
// the feed.
func (a *turnAudit) flush() {
	a.pending = false
	for _, o := range a.state.Pending() {
		a.expectAside(o)
	}
}

// expectAside numbers an output of the rewind itself.
func (a *turnAudit) expectAside(o feed.Output) {
	o.ID = fold.ID(0, a.aside, a.retold.Epoch)
	a.aside++
	a.expect(o, a.retelling())
}

func (a *turnAudit) expect(o feed.Output, from origin) {
	data, err := feed.Encode(o)
	if err != nil {
		a.found.add("I8", streamEV, from.in, "what follows from this event cannot be written: %v", err)
		return
	}
	a.want = append(a.want, wanted{o, data, from})
}

// output holds what was said against what must have been (I8).
func (a *turnAudit) output(m jet.Msg, lane subjects.Lane, stamp reducer.Stamp, chained bool) {
	a.outputs++
	if a.rewound && stamp.Epoch < a.retold.Epoch {
		return // taken back by the rewind
	}
	if a.pending && stamp.Epoch > 0 {
		a.flush() // every event up to the rewind has been read by now
	}
	if !a.broken {
		a.broken = !a.same(m, lane, stamp, chained)
	}
	if a.broken { // look on as a stranger who has the feed alone
		if o, err := feed.Decode(m.Data); err == nil {
			a.eyes.see(m.Seq, o)
		}
		return
	}
	a.eyes.see(m.Seq, a.want[0].out)
	a.previous = a.want[0].data
	if a.want[0] = (wanted{}); len(a.want) == 1 {
		a.want = a.want[:0] // its place is used again: mostly one output waits
	} else {
		a.want = a.want[1:]
	}
}

func (a *turnAudit) same(m jet.Msg, lane subjects.Lane, got reducer.Stamp, chained bool) bool {
	if a.previous != nil && bytes.Equal(m.Data, a.previous) {
		a.found.add("I9", streamOUT, m.Seq, "this output is stored twice")
		a.found.add("I8", streamOUT, m.Seq, "no event explains this output")
		return false
	}
	if len(a.want) == 0 {
		a.found.add("I8", streamOUT, m.Seq, "no event explains this output")
		return false
	}
	want := a.want[0]
	if lane != want.out.Body.Lane() || !bytes.Equal(m.Data, want.data) {
		a.found.add("I8", streamOUT, m.Seq, "event %d says %.160s, the log has %.160s", want.in, want.data, m.Data)
		return false
	}
	if got.Chain == "" && want.linked && !chained {
		want.linked, a.unlinked = false, m.Seq // written by an owner that did not chain yet
	}
	if got.Chain != "" && a.unlinked > 0 {
		a.found.add("I8", streamOUT, a.unlinked, "it has no %s, and later outputs of its turn have", reducer.HeaderChain)
	}
	if !want.fits(got) {
		a.found.add("I8", streamOUT, m.Seq, "its headers say that it comes from %+v; the events say %+v", got, want.stamp(got))
		return false
	}
	return true
}

// over reports whether nothing can come any more.
func (a *turnAudit) over() bool {
	return a.state.Done() && len(a.want) == 0 && !a.pending
}

// judge is the verdict. written is the input that the partition's owner has reached;
// outputs of later ones are under way, unless all is known to be settled.
func (a *turnAudit) judge(facts *Facts, written uint64, settled bool) Verdict {
	if a.pending {
		a.flush()
	}
	underWay := 0
	if !a.broken {
		underWay = len(a.want)
		if underWay > 0 && (settled || a.want[0].in < written) {
			a.found.add("I8", streamEV, a.want[0].in, "an output of this event is missing: %.160s", a.want[0].data)
			underWay = 0
		}
	}
	if a.state.Opened == nil && a.events > 0 {
		a.found.add("I13", streamEV, a.firstEV, "the turn's opening is missing")
	}
	a.source.judge(&a.state)
	facts.judge(a.turn, &a.state, &a.found)
	v := verdictOf(a.turn, &a.state, a.found)
	v.Events, v.Outputs, v.UnderWay, v.Rewinds = a.events, a.outputs, underWay, a.rewinds
	return v
}
