package fold

// KeyCallsMax is how many calls the effect key with the most of them has had, and
// whether there was a call with a key at all. A healthy turn sits at 1; an average over
// calls would hide the one turn that reached fourteen (I12).
func (s *State) KeyCallsMax() (calls int, any bool) {
	count := map[string]int{}
	for _, st := range s.Steps {
		for _, c := range st.Calls {
			if c.Key != "" {
				count[c.Key]++
				calls = max(calls, count[c.Key])
			}
		}
	}
	return calls, len(count) > 0
}
