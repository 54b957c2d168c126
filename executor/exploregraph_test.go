package executor

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// graph is what has been explored.
type graph struct {
	states    int
	elapsed   time.Duration
	full      bool
	violation string // with the way to it
	stuck     string
}

type xnode struct {
	parent int32
	choice xchoice
}

// explore walks every state within reach, breadth first, and then looks whether each
// can still come to an end without another fault.
func (x *explorer) explore(left xfaults, limit int) graph {
	began := time.Now()
	first := x.start(left)
	ids := map[uint64]int32{first.hash(): 0}
	nodes, queue := []xnode{{parent: -1}}, []*xstate{first}
	calm, ends := [][]int32{nil}, []int32(nil) // calm: from where a state is reached without a fault
	g := graph{full: true}
	for i := 0; i < len(queue); i++ {
		s := queue[i]
		queue[i] = nil
		if x.ended(s) {
			ends = append(ends, int32(i))
		}
		for _, c := range x.enabled(s) {
			next := x.apply(s, c)
			h := next.hash()
			id, seen := ids[h]
			if !seen {
				id = int32(len(nodes))
				ids[h] = id
				nodes, queue, calm = append(nodes, xnode{int32(i), c}), append(queue, next), append(calm, nil)
			}
			if bad := next.check(x.class); bad != "" {
				g.violation = bad + ":\n" + x.trace(left, append(path(nodes, int32(i)), c))
				g.states, g.elapsed = len(nodes), time.Since(began)
				return g
			}
			if !c.fault() {
				calm[id] = append(calm[id], int32(i))
			}
		}
		if len(nodes) > limit {
			g.full = false
			break
		}
	}
	g.states, g.elapsed = len(nodes), time.Since(began)
	if g.full {
		if stuck := firstStuck(calm, ends); stuck >= 0 {
			g.stuck = x.trace(left, path(nodes, stuck))
		}
	}
	return g
}

// ended says that the turn has all its outcomes.
func (x *explorer) ended(s *xstate) bool {
	outcome, asked := s.folded()
	if outcome[1] == "" {
		return false
	}
	return x.calls == 1 || outcome[2] != "" || x.later && !asked[2] && outcome[1].Known() && outcome[1] == "succeeded"
}

// firstStuck is a state from where no end can be reached; -1 if there is none.
func firstStuck(calm [][]int32, ends []int32) int32 {
	ok := make([]bool, len(calm))
	for _, e := range ends {
		ok[e] = true
	}
	for len(ends) > 0 {
		at := ends[len(ends)-1]
		ends = ends[:len(ends)-1]
		for _, from := range calm[at] {
			if !ok[from] {
				ok[from] = true
				ends = append(ends, from)
			}
		}
	}
	return int32(slices.Index(ok, false))
}

func path(nodes []xnode, at int32) []xchoice {
	var out []xchoice
	for ; at > 0; at = nodes[at].parent {
		out = append(out, nodes[at].choice)
	}
	slices.Reverse(out)
	return out
}

func (x *explorer) describe(s *xstate, c xchoice) string {
	switch c.what {
	case doStep:
		p := s.procs[c.proc]
		return fmt.Sprintf("%s/%d %s%s", xhostNames[p.host], p.call, xopNames[p.op], howNames[c.how])
	case doRenew:
		return fmt.Sprintf("%s renews", xhostNames[s.procs[c.proc].host])
	}
	name := map[xwhat]string{doDeliver: "is handed call", doIssue: "fold: command of call", doRestart: "starts again", doResume: "takes up its outbox",
		doTake: "takes pending call", doLand: "the late claim arrives", doAsk: "model: call", doHear: "hears a question", doCrash: "dies", doCrashEmpty: "dies and loses its memory",
		doRedeliver: "redelivery of call", doLoseFX: "FX loses its last", doLoseEV: "EV loses its last", doWithdraw: "is told to withdraw call"}[c.what]
	return fmt.Sprintf("%s %s %d", xhostNames[c.host], name, c.n)
}

func (x *explorer) start(left xfaults) *xstate {
	x.losses = left.fx
	s := &xstate{left: left}
	for h := range x.hosts {
		s.hosts[h] = xhost{up: true, open: true}
	}
	s.ev = []xevent{{1, ""}}
	s.cmds[1].queued = true
	if x.calls == 2 && !x.later {
		s.ev = append(s.ev, xevent{2, ""})
		s.cmds[2].queued = true
	}
	return s
}

// trace tells a way from the start.
func (x *explorer) trace(left xfaults, way []xchoice) string {
	var out []string
	s := x.start(left)
	for _, c := range way {
		out = append(out, "  "+x.describe(s, c))
		s = x.apply(s, c)
	}
	var facts []string
	for _, f := range s.fx {
		facts = append(facts, fmt.Sprintf("%s %s %s %s%s", f.Kind, f.Token, f.Call, f.Outcome, f.ErrorClass))
	}
	return strings.Join(out, "\n") + "\n  FX: " + strings.Join(facts, ", ") + fmt.Sprintf("\n  EV: %v", s.ev)
}
