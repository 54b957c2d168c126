package fold_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"
)

// wide is off by default in a race run (race_on_test.go): the fold has no goroutines, and
// the narrow bounds run the same code.
var wide = flag.Bool("explore.wide", true, "TestExplore: also the bounds with more than 20,000 states")

// TestExplore drives the real fold through every interleaving, in small bounds, of two
// streamers and two owners with redelivery, crashes, pauses (a process that stops is one
// that the others overtake), openings without an answer, stored or still under way,
// repeated, lost and late events, cancels and the loss of EV's end. In every state: the
// feed shows only the winner (I1, I2, I3), OUT is the fold of EV (I8), each output once
// (I9), and the turn can still end without a further fault.
func TestExplore(t *testing.T) {
	began, total := time.Now(), 0
	for _, b := range []budget{
		{name: "two owners, crashes of owner and streamer", wide: true, owners: 2, crash: 1, ownerCrash: 1},
		{name: "redelivery and crash", owners: 1, crash: 1, redeliver: 1},
		{name: "redelivery, false suspicion", wide: true, owners: 1, redeliver: 1, suspect: 1},
		{name: "skipped delivery, ambiguous opening", owners: 1, crash: 1, skip: 1, ambiguous: 1},
		{name: "an opening that arrives late, redelivery", owners: 1, fly: 1, redeliver: 1},
		{name: "an opening that arrives late, crash", owners: 1, fly: 1, crash: 1},
		{name: "a word that arrives late", wide: true, owners: 1, late: 1, crash: 1},
		{name: "a word that arrives late, cancel", owners: 1, late: 1, crash: 1, cancel: 1, attempts: 1},
		{name: "repeated events, two owners", wide: true, owners: 2, repeat: 1, redeliver: 1},
		{name: "lost event", owners: 1, drop: 1, repeat: 1},
		{name: "cancel among crashes", wide: true, owners: 1, cancel: 1, crash: 1, redeliver: 1},
		{name: "cancel, false suspicion, owner crash", wide: true, owners: 1, cancel: 1, suspect: 1, ownerCrash: 1},
		{name: "EV loses its end", wide: true, owners: 1, tailLoss: 1},
		{name: "EV loses its end, owner crashes while it rewinds", owners: 1, tailLoss: 1, ownerCrash: 1, attempts: 1},
		{name: "EV loses its end, two pieces, redelivery", wide: true, owners: 1, tailLoss: 1, redeliver: 1, attempts: 1, texts: 2},
		{name: "EV loses its end, cancel", owners: 1, tailLoss: 1, cancel: 1, attempts: 1},
		{name: "EV loses its end, an opening that arrives late", owners: 1, tailLoss: 1, fly: 1, attempts: 1},
		{name: "EV loses its end, a word that arrives late", wide: true, owners: 1, tailLoss: 1, late: 1, crash: 1, attempts: 1},
		{name: "EV loses its end, crash", owners: 1, tailLoss: 1, crash: 1, attempts: 1},
	} {
		if b.wide && !*wide {
			continue
		}
		x := newExplorer(b)
		x.run()
		total += len(x.states)
		for _, why := range x.violations {
			t.Errorf("%s: %s", b.name, why)
		}
		t.Logf("%-50s %7d states, %d logs", b.name, len(x.states), len(x.memo))
		if x.cut {
			t.Errorf("%s: more than %d states; the bounds are too wide", b.name, statesMax)
		}
	}
	fmt.Printf("TestExplore: %d states in %s, every state can end\n", total, time.Since(began).Round(time.Millisecond))
}

// TestExploreFinds takes one protection away at a time: the explorer must see it.
func TestExploreFinds(t *testing.T) {
	for _, b := range []budget{
		{sabotage: "fence", owners: 2},
		{sabotage: "digest", owners: 1, tailLoss: 1, attempts: 1},
		{sabotage: "tokens", owners: 1, tailLoss: 1, redeliver: 1, attempts: 1, texts: 2},
		{sabotage: "timers", owners: 1, crash: 1, skip: 1},
		{sabotage: "remainder", owners: 1, ownerCrash: 1},
	} {
		x := newExplorer(b)
		x.run()
		if len(x.violations) == 0 {
			t.Errorf("without %s: nothing is found in %d states", b.sabotage, len(x.states))
			continue
		}
		t.Logf("without %s, after %d states: %.200s", b.sabotage, len(x.states), x.violations[0])
	}
}

// budget is how much may go wrong in one exploration.
type budget struct {
	wide             bool // more than 20,000 states
	name             string
	sabotage         string // a protection that is missing
	owners, attempts uint8
	texts            uint8 // pieces that an attempt says

	crash, redeliver, skip, ownerCrash, repeat, ambiguous uint8
	tailLoss, cancel, suspect, drop                       uint8 // suspect: a live attempt, by a timer
	fly, late                                             uint8 // an opening that is stored late; a word, after its speaker's end
}

const statesMax = 300_000

// explorer is a breadth-first search.
type explorer struct {
	budget
	memo       map[string]*folded
	codes      map[string]uint16 // of outputs
	outputs    []output          // by code
	ids        map[scene]int32
	states     []scene
	parent     []int32
	label      []string
	before     [][]int32 // states that lead here without a fault
	violations []string
	cut        bool
}

func newExplorer(b budget) *explorer {
	if b.attempts == 0 {
		b.attempts = 2
	}
	if b.texts == 0 {
		b.texts = 1
	}
	return &explorer{budget: b, memo: map[string]*folded{}, codes: map[string]uint16{}, outputs: []output{{}}, ids: map[scene]int32{}}
}

func (x *explorer) run() {
	var first scene
	first.left = x.budget
	first.left.name, first.left.sabotage = "", ""
	first.append(happened{kind: opened, ord: x.attempts})
	x.add(first, -1, "")
	for i := 0; i < len(x.states) && len(x.violations) == 0; i++ {
		if x.cut = len(x.states) > statesMax; x.cut {
			return
		}
		for _, m := range x.moves(x.states[i]) {
			j, known := x.ids[m.to]
			if !known {
				j = x.add(m.to, int32(i), m.label)
				if v := x.check(&m.to); v != "" {
					x.violations = append(x.violations, v+": "+x.trace(j))
				}
			}
			if !m.fault {
				x.before[j] = append(x.before[j], int32(i))
			}
		}
	}
	if len(x.violations) == 0 {
		x.checkEnds()
	}
}

func (x *explorer) add(w scene, parent int32, label string) int32 {
	j := int32(len(x.states))
	x.ids[w] = j
	x.states, x.parent, x.label, x.before = append(x.states, w), append(x.parent, parent), append(x.label, label), append(x.before, nil)
	return j
}

func (x *explorer) trace(i int32) string {
	var back []string
	for ; i > 0; i = x.parent[i] {
		back = append(back, x.label[i])
	}
	var out strings.Builder
	for n := len(back) - 1; n >= 0; n-- {
		out.WriteString(back[n] + " | ")
	}
	return out.String()
}

// checkEnds finds states from which the turn cannot end without a further fault.
func (x *explorer) checkEnds() {
	can := make([]bool, len(x.states))
	var queue []int32
	for i := range x.states {
		if x.ended(&x.states[i]) {
			can[i] = true
			queue = append(queue, int32(i))
		}
	}
	for len(queue) > 0 {
		last := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, p := range x.before[last] {
			if !can[p] {
				can[p] = true
				queue = append(queue, p)
			}
		}
	}
	for i := range can {
		if !can[i] {
			x.violations = append(x.violations, "the turn cannot end: "+x.trace(int32(i)))
			return
		}
	}
}
