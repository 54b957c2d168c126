package executor

import (
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/turnfold/turnfold/keystore"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/event"
)

// xstate is everything that two executors, one effect key and the world around them can
// differ in. It is a value: a step clones it. What a process has in its own hands is
// kept as the answers that its ports have given it (xproc.said), because the real code
// that is run again with the same answers stands where it stood.
type xstate struct {
	fx     []effect.Fact // the key's subject; the sequence of a fact is its place, from 1
	ev     []xevent
	hosts  [2]xhost
	procs  []xproc // sorted
	cmds   [3]xcommand
	flight *xflight // a claim whose answer was lost and that may arrive yet
	tokens int
	did    [3]uint8 // how often a call of this number changed the world
	sent   uint8    // requests that may have changed it
	told   [3]event.Outcome
	left   xfaults
	bad    string // what broke in the last step
}

// xevent is an event of the turn: a call that is asked for, or its outcome.
type xevent struct {
	call    int
	outcome event.Outcome // empty: the call is asked for
}

type xflight struct {
	fact effect.Fact
	last uint64
}

// xcommand is what the command log has of a call.
type xcommand struct{ queued, again, withdrawn bool }

// xhost is one host: its memory on disk, and of its process only what calls share.
type xhost struct {
	up, open, alarm, doubt, away bool // away: has not stated its facts since a loss
	asks, busy, wanted           bool // its question is open; it looks or states; the other's question waits for a look
	epoch                        uint64
	at                           keystore.Mark // in memory
	frozen                       bool
	disk                         keystore.Mark
	recs                         []xrec // sorted by token
	notRun                       []string
	resume                       []string // tokens of the outbox that are still to be taken up
	take                         [3]bool  // calls of open turns that are still to be taken up
}

// xrec is what a host remembers of a claim, as keystore does.
type xrec struct {
	token, call, class string
	claimed            bool
	outcome            effect.Outcome
	pending, cmd, body bool
}

// xfaults is how many of each fault are still to come.
type xfaults struct{ crash, pebble, redeliver, pause, unclear, fx, ev, withdraw, renew int }

// sum counts the faults that are left.
func (f xfaults) sum() int {
	return f.crash + f.pebble + f.redeliver + f.pause + f.unclear + f.fx + f.ev + f.withdraw + f.renew
}

func callID(k int) string { return fmt.Sprint("1.", k) }

var xcalls = [...]string{"", "local/t/1.1", "local/t/1.2"}

func callNumber(name string) int { return slices.Index(xcalls[:], name) }

// clone copies what steps change in place. Slices are only ever replaced.
func (s *xstate) clone() *xstate {
	c := *s
	c.procs = slices.Clone(s.procs)
	c.bad = ""
	return &c
}

// folded is what the turn takes for the calls' outcomes; asked, which it waits for.
func (s *xstate) folded() (outcome [3]event.Outcome, asked [3]bool) {
	for _, e := range s.ev {
		switch {
		case e.outcome == "":
			asked[e.call] = true
		case asked[e.call] && !outcome[e.call].Known():
			outcome[e.call] = e.outcome
		}
	}
	return outcome, asked
}

// grow is append to a slice that other states share.
func grow[T any](s []T, v T) []T { return append(s[:len(s):len(s)], v) }

func without[T any](s []T, i int) []T { return append(s[:i:i], s[i+1:]...) }

// rec finds a record, or where it belongs.
func (h *xhost) rec(token string) (int, bool) {
	return slices.BinarySearchFunc(h.recs, token, func(r xrec, t string) int {
		if r.token < t {
			return -1
		}
		if r.token > t {
			return 1
		}
		return 0
	})
}

func (h *xhost) put(r xrec) {
	i, ok := h.rec(r.token)
	h.recs = slices.Clone(h.recs)
	if ok {
		h.recs[i] = r
		return
	}
	h.recs = slices.Insert(h.recs, i, r)
}

func (h *xhost) facts(name string) []effect.Fact {
	var out []effect.Fact
	for _, r := range h.recs {
		if r.claimed {
			out = append(out, effect.Fact{Kind: effect.KindClaim, Token: r.token, Call: r.call, Host: name})
		}
		if r.outcome != "" {
			out = append(out, effect.Fact{Kind: effect.KindReport, Token: r.token, Call: r.call, Host: name,
				Outcome: r.outcome, ErrorClass: r.class, BodyDigest: digestOf(r.body)})
		}
	}
	for _, c := range h.notRun {
		out = append(out, effect.Fact{Kind: effect.KindNotRun, Call: c, Host: name})
	}
	return out
}

func digestOf(body bool) string {
	if body {
		return "d"
	}
	return ""
}

// xseed makes equal states of one run of the test binary hash equally.
var xseed = maphash.MakeSeed()

// xsum builds the hash of a state.
type xsum struct{ maphash.Hash }

func newSum() *xsum {
	s := &xsum{}
	s.SetSeed(xseed)
	return s
}

func (s *xsum) text(t string) { _, _ = s.WriteString(t); _ = s.WriteByte(0) }
func (s *xsum) bits(b ...bool) {
	for _, v := range b {
		n := byte(0)
		if v {
			n = 1
		}
		_ = s.WriteByte(n)
	}
}

func (s *xsum) num(n ...uint64) {
	for _, v := range n {
		_ = s.WriteByte(byte(v))
		_ = s.WriteByte(byte(v >> 8))
		_ = s.WriteByte(byte(v >> 16))
		_ = s.WriteByte(byte(v >> 24))
		_ = s.WriteByte(byte(v >> 32))
		_ = s.WriteByte(byte(v >> 40))
		_ = s.WriteByte(byte(v >> 48))
		_ = s.WriteByte(byte(v >> 56))
	}
}

func (s *xsum) fact(f effect.Fact) {
	s.text(string(f.Kind))
	s.text(f.Token)
	s.text(f.Call)
	s.text(string(f.Outcome))
	s.text(f.ErrorClass)
	s.text(f.BodyDigest)
	s.text(f.Host)
	s.num(f.Epoch)
}

func sumFacts(facts []effect.Fact) uint64 {
	s := newSum()
	for _, f := range facts {
		s.fact(f)
	}
	return s.Sum64()
}

// hash tells states apart. Epochs count only as current or past.
func (s *xstate) hash() uint64 {
	h := newSum()
	h.num(sumFacts(s.fx), uint64(s.tokens), uint64(s.sent), uint64(len(s.ev)))
	for _, e := range s.ev {
		h.num(uint64(e.call))
		h.text(string(e.outcome))
	}
	for i := range s.hosts {
		o := &s.hosts[i]
		h.bits(o.up, o.open, o.alarm, o.doubt, o.away, o.asks, o.busy, o.wanted, o.frozen, o.take[1], o.take[2])
		h.num(o.at.Seq, o.disk.Seq, uint64(len(o.recs)), uint64(o.at.Digest[0]), uint64(o.disk.Digest[0]))
		for _, r := range o.recs {
			h.text(r.token + r.call)
			h.text(r.class + "/" + string(r.outcome))
			h.bits(r.claimed, r.pending, r.cmd, r.body)
		}
		for _, c := range o.notRun {
			h.text(c)
		}
		for _, c := range o.resume {
			h.text(c)
		}
	}
	for i := range s.procs {
		s.procs[i].sum(h, s.hosts[s.procs[i].host].epoch)
	}
	for k := 1; k <= 2; k++ {
		h.bits(s.cmds[k].queued, s.cmds[k].again, s.cmds[k].withdrawn)
		h.num(uint64(s.did[k]))
		h.text(string(s.told[k]))
	}
	if s.flight != nil {
		h.fact(s.flight.fact)
		h.num(s.flight.last)
	}
	l := s.left
	for _, n := range []int{l.crash, l.pebble, l.redeliver, l.pause, l.unclear, l.fx, l.ev, l.withdraw, l.renew} {
		_ = h.WriteByte(byte(n))
	}
	return h.Sum64()
}

// check says which promise the state breaks.
func (s *xstate) check(class effect.Class) string {
	outcome, _ := s.folded()
	total := s.did[1] + s.did[2]
	if class != effect.Read && total > 1 {
		return "the effect happened twice"
	}
	for k := 1; k <= 2; k++ {
		o := outcome[k]
		switch {
		case (o == event.OutcomeFailed || o == event.OutcomeNotRun || o == event.OutcomeRefused) && s.did[k] > 0:
			return fmt.Sprintf("call %d was told %s and happened", k, o)
		case o == event.OutcomeSucceeded && total == 0:
			return fmt.Sprintf("call %d was told %s and nothing happened", k, o)
		}
	}
	return s.bad
}
