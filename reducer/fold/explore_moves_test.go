package fold_test

import (
	"fmt"

	"github.com/turnfold/turnfold/reducer/fold"
)

// scene is one state of an exploration: the logs, the processes, and what may still go
// wrong. It holds no pointers, so that equal states are found again.
type scene struct {
	nev, nout, uid, tokens uint8
	ev                     [eventsMax]happened
	out                    [outputsMax]stored
	owners                 [2]owner
	streamers              [2]worker
	flight                 flight
	left                   budget
}

// flight is an event that was sent by somebody who has no answer, and is not stored yet:
// it may be at any time. An opening is only while EV ends where it says.
type flight struct {
	h       happened // kind 0: there is none
	compare uint8    // 0: whatever EV's end
}

// stored is a message on OUT with its position.
type stored struct {
	code  uint16
	in    uint8 // input, with its uid in place of its digest
	uid   uint8
	index uint8 // whole: all outputs of the input are out
	acked bool  // of a step command
}

const whole = 255

// owner is a process that believes that it owns the partition. Its memory is always the
// fold of the inputs it has read, so only how far it got is kept.
type owner struct {
	active bool
	in     uint8 // the input that it is at
	next   uint8 // index of that input's next output
	expect uint8 // end of OUT, by what it knows
	retell bool  // it writes a rewind: next counts its messages
}

// before is any order.
func (o owner) before(p owner) bool {
	rank := func(o owner) (n uint32) {
		for _, b := range []bool{o.active, o.retell} {
			if n <<= 1; b {
				n++
			}
		}
		return n<<24 | uint32(o.in)<<16 | uint32(o.next)<<8 | uint32(o.expect)
	}
	return rank(o) < rank(p)
}

type stage uint8

const (
	idle stage = iota
	got
	opening
	unclear // an opening whose answer was lost
	running
)

// worker is a streamer.
type worker struct {
	stage                    stage
	command, attempt, at, in uint8
	token, ord               uint8
}

type move struct {
	to    scene
	label string
	fault bool
}

func (w *scene) append(h happened) bool {
	if w.nev >= eventsMax {
		return false
	}
	w.uid++
	h.uid = w.uid
	w.ev[w.nev] = h
	w.nev++
	return true
}

// moves lists everything that can happen next.
func (x *explorer) moves(w scene) []move {
	m := &moves{x: x, w: w}
	for i := range int(x.owners) {
		m.owner(i)
	}
	m.deliver()
	for i := range w.streamers {
		m.streamer(i)
	}
	if w.left.cancel > 0 {
		n := w
		n.left.cancel--
		m.event(n, happened{kind: cancelled}, true, "cancel")
	}
	m.land()
	m.loseTail()
	return m.out
}

type moves struct {
	x   *explorer
	w   scene
	out []move
}

// add notes a move. Owners have no names: a scene in which two have changed places is the
// same (in traces they may change names).
func (m *moves) add(to scene, fault bool, format string, args ...any) {
	if a, b := to.owners[0], to.owners[1]; m.x.owners > 1 && b.before(a) {
		to.owners[0], to.owners[1] = b, a
	}
	m.out = append(m.out, move{to, fmt.Sprintf(format, args...), fault})
}

func (m *moves) event(to scene, h happened, fault bool, label string) {
	if to.append(h) {
		m.add(to, fault, "%s", label)
	}
}

// land stores what is under way, or drops it.
func (m *moves) land() {
	f := m.w.flight
	if f.h.kind == 0 {
		return
	}
	n := m.w
	n.flight = flight{}
	m.add(n, false, "what was under way is lost")
	if f.compare == 0 || f.compare == m.w.nev {
		m.event(n, f.h, false, "what was under way arrives")
	}
}

// retold is what an owner writes when EV has lost its end after an input.
func (x *explorer) retold(w *scene, to uint8) []uint16 {
	open, reset, done := x.rewound()
	f := x.fold(w, to)
	list := append([]uint16{open, reset}, f.feed...)
	list = append(list, f.pending...)
	return append(list, done)
}

func (m *moves) owner(i int) {
	o := m.w.owners[i]
	if !o.active {
		n := m.w
		n.owners[i] = m.takeOver()
		m.add(n, false, "O%d takes over", i)
		return
	}
	if m.w.left.ownerCrash > 0 {
		n := m.w
		n.left.ownerCrash--
		n.owners[i] = owner{}
		m.add(n, true, "O%d crashes", i)
	}
	list := m.due(o)
	switch {
	case int(o.next) < len(list):
		m.write(i, list[o.next])
	case o.retell:
		n := m.w
		n.owners[i].retell, n.owners[i].next = false, whole
		m.add(n, false, "O%d has rewound", i)
	case o.in < m.w.nev:
		n := m.w
		n.owners[i].in++
		n.owners[i].next = 0
		m.add(n, false, "O%d reads %d", i, o.in+1)
	default:
		m.timers()
	}
}

// due is what the owner has to write for where it is.
func (m *moves) due(o owner) []uint16 {
	switch {
	case o.retell:
		return m.x.retold(&m.w, o.in)
	case o.in == 0 || o.next == whole:
		return nil
	}
	return m.x.fold(&m.w, o.in).outputs[o.in-1]
}

// takeOver reads the position off the last message of OUT, and finds out whether EV
// still has what it rests on.
func (m *moves) takeOver() owner {
	o := owner{active: true, expect: m.w.nout}
	if m.w.nout == 0 {
		return o
	}
	last := m.w.out[m.w.nout-1]
	if m.x.sabotage == "digest" && last.in <= m.w.nev || m.has(last) && !m.rewinding() {
		o.in, o.next = last.in, last.index
		switch {
		case m.x.sabotage == "remainder":
			o.next = whole
		case last.index != whole:
			o.next++
		}
		return o
	}
	o.retell = true
	for n := int(m.w.nout) - 1; n >= 0; n-- {
		s := m.w.out[n]
		if s.index != whole && m.has(s) {
			o.in = s.in
			break
		}
	}
	return o
}

func (m *moves) has(s stored) bool {
	return s.in == 0 || s.in <= m.w.nev && m.w.ev[s.in-1].uid == s.uid
}

// rewinding says that OUT ends within a rewind.
func (m *moves) rewinding() bool {
	last := m.w.out[m.w.nout-1]
	_, _, done := m.x.rewound()
	return last.index == whole && last.code != done
}

func (m *moves) write(i int, code uint16) {
	n, o := m.w, m.w.owners[i]
	if o.expect != m.w.nout && m.x.sabotage != "fence" {
		n.owners[i] = owner{}
		m.add(n, false, "O%d is fenced", i)
		return
	}
	if n.nout >= outputsMax {
		return
	}
	s := stored{code: code, in: o.in, index: o.next}
	if o.in > 0 {
		s.uid = n.ev[o.in-1].uid
	}
	if o.retell {
		s.index = whole
	}
	n.out[n.nout] = s
	n.nout++
	n.owners[i].next++
	n.owners[i].expect = n.nout
	m.add(n, false, "O%d writes %s", i, m.x.outputs[code].typ)
}

// timers fires what the owner waits for. A timer is right if nobody is at work; that it
// fires all the same is a fault.
func (m *moves) timers() {
	f := m.x.fold(&m.w, m.w.nev)
	if m.x.sabotage == "timers" {
		return
	}
	for _, t := range f.timers {
		h := happened{attempt: uint8(t.Attempt), seen: uint8(t.Seen)}
		alive := false
		switch t.Kind {
		case fold.TimerUnsaved:
			m.event(m.w, happened{kind: saved}, false, "saved")
			continue
		case fold.TimerUnopened:
			h.kind, alive = overdue, m.wanted(h.attempt)
		case fold.TimerSilence:
			h.kind = lost
			for _, s := range m.w.streamers {
				if tokenOf(s.token) == t.Token {
					h.token = s.token
					alive = alive || s.stage == running || s.stage == unclear
				}
			}
			for _, e := range m.w.ev[:m.w.nev] {
				if tokenOf(e.token) == t.Token {
					h.token = e.token
				}
			}
		default:
			continue // the deadline ends everything, which is no proof of anything
		}
		n := m.w
		if alive {
			if n.left.suspect == 0 {
				continue
			}
			n.left.suspect--
		}
		m.event(n, h, alive, fmt.Sprintf("timer %s", t.Kind))
	}
}

func tokenOf(n uint8) string { return fmt.Sprintf("t%d", n) }

// wanted says whether somebody will still look at the attempt's command.
func (m *moves) wanted(attempt uint8) bool {
	for _, s := range m.w.streamers {
		if s.stage != idle && s.attempt == attempt {
			return true
		}
	}
	for _, s := range m.w.out[:m.w.nout] {
		if o := m.x.outputs[s.code]; o.typ == "step" && o.attempt == attempt && !s.acked {
			return true
		}
	}
	return false
}

// loseTail takes EV's last events away, as power does. Owners lose the connection.
func (m *moves) loseTail() {
	for k := uint8(1); m.w.left.tailLoss > 0 && k <= 2 && k < m.w.nev; k++ {
		n := m.w
		n.left.tailLoss--
		for j := n.nev - k; j < n.nev; j++ {
			n.ev[j] = happened{}
		}
		n.nev -= k
		n.owners = [2]owner{}
		m.add(n, true, "EV loses its last %d", k)
	}
}
