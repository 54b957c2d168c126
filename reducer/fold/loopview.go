package fold

import (
	"cmp"
	"slices"
	"strings"
)

// LoopCount is one count of the loop breaker, beside its cap (I12).
type LoopCount struct {
	Tool string `json:"tool"`
	// Kind is "ends" (other than success, of one identity and error class), "empty"
	// (results without rows) or "rows" (the same rows again).
	Kind  string `json:"kind"`
	Class string `json:"class,omitzero"` // error class of the ends
	Count int    `json:"count"`
	// Most is the highest count at which the breaker is still silent.
	Most int      `json:"most"`
	Keys []string `json:"keys,omitzero"` // of the calls that the ends are of
}

// LoopCounts lists what the loop breaker has counted, the fullest first.
func (s *State) LoopCounts() []LoopCount {
	out := []LoopCount{}
	for k, n := range s.failures {
		part := strings.SplitN(k, "\x00", 3) // neither a tool's name nor canonical text has a NUL
		c := LoopCount{Tool: part[0], Kind: "ends", Class: part[2], Count: n, Most: s.loopCap(part[0])}
		for _, st := range s.Steps {
			for _, call := range st.Calls {
				if call.Tool == part[0] && call.identity == part[1] && call.Key != "" && !slices.Contains(c.Keys, call.Key) {
					c.Keys = append(c.Keys, call.Key)
				}
			}
		}
		out = append(out, c)
	}
	for tool, n := range s.empties {
		out = append(out, LoopCount{Tool: tool, Kind: "empty", Count: n, Most: emptiesCap - 1})
	}
	for k, n := range s.rows {
		tool, _, _ := strings.Cut(k, "\x00")
		out = append(out, LoopCount{Tool: tool, Kind: "rows", Count: n, Most: s.loopCap(tool)})
	}
	slices.SortFunc(out, func(a, b LoopCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Class, b.Class), slices.Compare(a.Keys, b.Keys))
	})
	return out
}

// loopCap is the cap of a tool's ends.
func (s *State) loopCap(tool string) int {
	if t, ok := s.tool(tool); ok && t.Cap > 0 {
		return t.Cap
	}
	return capDefault
}
