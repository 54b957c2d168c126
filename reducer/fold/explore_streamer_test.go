package fold_test

import (
	"fmt"
	"strings"

	"github.com/turnfold/turnfold/subjects"
)

// deliver hands step commands to streamers that have nothing to do.
func (m *moves) deliver() {
	for j, s := range m.w.out[:m.w.nout] {
		o := m.x.outputs[s.code]
		if o.typ != "step" || s.acked {
			continue
		}
		held := false
		for _, x := range m.w.streamers {
			held = held || x.stage != idle && int(x.command) == j+1
		}
		for i, x := range m.w.streamers {
			if x.stage != idle || held && m.w.left.redeliver == 0 {
				continue
			}
			n := m.w
			if held {
				n.left.redeliver--
			}
			n.streamers[i] = worker{stage: got, command: uint8(j + 1), attempt: o.attempt, in: uint8(o.in)}
			m.add(n, held, "S%d gets step %d", i, o.attempt)
		}
		if !held && m.w.left.skip > 0 {
			n := m.w
			n.left.skip--
			n.out[j].acked = true
			m.add(n, true, "step %d is skipped", o.attempt)
		}
	}
}

func (m *moves) streamer(i int) {
	s := m.w.streamers[i]
	if s.stage != idle && m.w.left.crash > 0 {
		n := m.w
		n.left.crash--
		n.streamers[i] = worker{}
		m.add(n, true, "S%d crashes", i)
		if s.stage == running && m.w.left.late > 0 && m.w.flight.h.kind == 0 {
			n.left.late--
			for _, h := range m.words(s) {
				n.flight = flight{h: h}
				m.add(n, true, "S%d crashes with a word under way", i)
			}
		}
	}
	switch s.stage {
	case idle:
		m.resume(i)
	case got, unclear:
		m.look(i)
	case opening:
		m.open(i)
	case running:
		m.speak(i)
	}
}

// words are what a streamer may be about to say.
func (m *moves) words(s worker) []happened {
	h := happened{kind: spoke, attempt: s.attempt, token: s.token, ord: s.ord}
	if s.ord < m.x.texts {
		return []happened{h}
	}
	done, broken := h, h
	done.kind, broken.kind = finished, failed
	return []happened{done, broken}
}

// resume is a streamer that finds an attempt of its own host that it does not run.
func (m *moves) resume(i int) {
	a := m.x.fold(&m.w, m.w.nev).running
	if a != nil && a.Started != nil && a.Started.Instance == fmt.Sprintf("s%d", i) {
		m.event(m.w, happened{kind: lost, attempt: uint8(a.N), token: tokenNumber(a.Started.Token)}, false, fmt.Sprintf("S%d declares its attempt lost", i))
	}
}

func tokenNumber(t string) (n uint8) {
	_, _ = fmt.Sscanf(t, "t%d", &n) // our own
	return n
}

// look decides by the turn's state what to do with a command, as the streamer does.
func (m *moves) look(i int) {
	n, s := m.w, m.w.streamers[i]
	f := m.x.fold(&m.w, m.w.nev)
	a := f.running
	switch {
	case f.state.Seq < uint64(s.in) && !f.state.Over():
		n.streamers[i] = worker{} // unseen: it comes again
		m.add(n, false, "S%d sees too little", i)
	case a == nil || a.N != int(s.attempt) || a.In != uint64(s.in):
		n.out[s.command-1].acked = true
		n.streamers[i] = worker{}
		m.add(n, false, "S%d drops step %d", i, s.attempt)
	case a.Started == nil:
		n.streamers[i].stage, n.streamers[i].at = opening, n.nev
		m.add(n, false, "S%d reads to %d", i, n.nev)
	case s.token != 0 && a.Started.Token == tokenOf(s.token):
		n.streamers[i].stage = running
		m.add(n, false, "S%d finds its opening", i)
	case a.Started.Instance == fmt.Sprintf("s%d", i):
		n.streamers[i] = worker{}
		m.event(n, happened{kind: lost, attempt: s.attempt, token: tokenNumber(a.Started.Token)}, false, fmt.Sprintf("S%d finds an orphan", i))
	default:
		n.streamers[i] = worker{} // elsewhere: the command comes again
		m.add(n, false, "S%d puts step %d off", i, s.attempt)
	}
}

// open is the compare-and-set at the end of the subject.
func (m *moves) open(i int) {
	n, s := m.w, m.w.streamers[i]
	if n.nev != s.at || n.nev >= eventsMax {
		n.streamers[i].stage, n.streamers[i].at = got, 0
		m.add(n, false, "S%d is too late to open", i)
		return
	}
	if s.token == 0 { // one token per opening, kept when the answer is lost
		n.tokens++
		n.streamers[i].token = n.tokens
	}
	if m.w.left.fly > 0 && m.w.flight.h.kind == 0 {
		away := n
		away.left.fly--
		away.flight = flight{happened{kind: started, attempt: s.attempt, token: n.streamers[i].token, by: uint8(i)}, m.w.nev}
		away.streamers[i].stage, away.streamers[i].at = unclear, 0
		m.add(away, true, "S%d has no answer to its opening, which is under way", i)
	}
	n.append(happened{kind: started, attempt: s.attempt, token: n.streamers[i].token, by: uint8(i)})
	n.streamers[i].stage, n.streamers[i].at = running, 0
	m.add(n, false, "S%d opens attempt %d", i, s.attempt)
	if m.w.left.ambiguous > 0 {
		n.left.ambiguous--
		n.streamers[i].stage = unclear
		m.add(n, true, "S%d opens attempt %d, unanswered", i, s.attempt)
	}
}

// speak writes the attempt's next event.
func (m *moves) speak(i int) {
	s := m.w.streamers[i]
	h := happened{attempt: s.attempt, token: s.token, ord: s.ord}
	if s.ord < m.x.texts {
		n := m.w
		n.streamers[i].ord++
		h.kind = spoke
		m.event(n, h, false, fmt.Sprintf("S%d says %d", i, s.ord))
		if m.w.left.drop > 0 { // lost between streamer and log: a gap
			n.left.drop--
			m.add(n, true, "S%d loses %d", i, s.ord)
		}
	}
	end := func(kind uint8, what string) {
		n := m.w
		n.out[s.command-1].acked = true
		n.streamers[i] = worker{}
		h := happened{kind: kind, attempt: s.attempt, token: s.token, ord: s.ord}
		m.event(n, h, false, fmt.Sprintf("S%d %s", i, what))
	}
	if s.ord == m.x.texts {
		end(finished, "finishes")
		end(failed, "fails")
	}
	if m.w.left.repeat > 0 && s.ord > 0 {
		n := m.w
		n.left.repeat--
		h.kind, h.ord = spoke, s.ord-1
		m.event(n, h, true, fmt.Sprintf("S%d says %d again", i, h.ord))
	}
}

// check says what is wrong with a state.
func (x *explorer) check(w *scene) string {
	if w.streamers[0].stage == running && w.streamers[1].stage == running && w.streamers[0].token == w.streamers[1].token {
		return "two streamers run one opening"
	}
	if v := x.checkFeed(w); v != "" {
		return v
	}
	return x.checkPure(w)
}

// checkFeed reads OUT as a renderer that knows nothing else.
func (x *explorer) checkFeed(w *scene) string {
	shown, over, resets := "", false, 0
	for _, s := range w.out[:w.nout] {
		o := x.outputs[s.code]
		switch {
		case o.lane != subjects.LaneFeed:
			continue
		case o.typ == "reset" && o.step == 0:
			shown, over, resets = "", false, 0
			continue
		case over && o.typ != "message_saved":
			return "the feed goes on after its end: " + o.typ
		}
		switch o.typ {
		case "reset":
			if resets++; o.abandons != resets {
				return fmt.Sprintf("reset %d abandons attempt %d (I3)", resets, o.abandons)
			}
			shown = ""
		case "text_delta":
			if int(o.attempt) != resets+1 {
				return fmt.Sprintf("attempt %d speaks after %d resets (I3)", o.attempt, resets)
			}
			if shown != "" && strings.SplitN(shown, ".", 2)[0] != strings.SplitN(o.text, ".", 2)[0] {
				return "text of two openings is mixed (I1): " + shown + o.text
			}
			shown += o.text
		case "completion":
			if over = true; o.text != shown {
				return fmt.Sprintf("the reader sees %q, the answer is %q (I2, I3)", shown, o.text)
			}
		case "error":
			over = true
		}
	}
	return ""
}

// checkPure compares OUT since its last rewind with the fold of EV, if EV still has what
// OUT stands at; if not, the next owner will rewind.
func (x *explorer) checkPure(w *scene) string {
	if w.nout == 0 {
		return ""
	}
	open, _, done := x.rewound()
	m := &moves{x: x, w: *w}
	if last := w.out[w.nout-1]; !m.has(last) || m.rewinding() || last.code == open {
		return ""
	}
	from, first := 0, uint8(0)
	for j, s := range w.out[:w.nout] {
		if s.code == done {
			from, first = j+1, s.in
		}
	}
	var want []uint16
	f := x.fold(w, w.nev)
	for _, codes := range f.outputs[first:] {
		want = append(want, codes...)
	}
	for j, s := range w.out[from:w.nout] {
		if j >= len(want) || want[j] != s.code {
			return fmt.Sprintf("output %d is %s, which is not what the fold makes of EV (I8, I9)", from+j+1, x.outputs[s.code].typ)
		}
	}
	return ""
}

// ended says that the turn is over and everything is said.
func (x *explorer) ended(w *scene) bool {
	f := x.fold(w, w.nev)
	if !f.state.Done() || w.nout == 0 {
		return false
	}
	m := &moves{x: x, w: *w}
	for _, o := range w.owners {
		if o.active && o.expect == w.nout && o.in == w.nev && !o.retell && int(o.next) >= len(m.due(o)) {
			return true
		}
	}
	return false
}
