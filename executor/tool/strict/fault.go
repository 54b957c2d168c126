// Package strict reads the files that people write for turnfold: YAML, of which
// JSON is a part.
//
// Invariant: nothing in a file is skipped or guessed. Each key is known, each value
// has the type of its member, and every fault of a file is reported at once, with
// its line, the member's name and the way to mend it. A null member counts as absent.
package strict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing that is wrong with a configuration.
type Fault struct {
	File    string // or the variable or flag that the value came from
	Line    int    // 1-based; 0 = not of a file
	Field   string // path of the member, such as tools[0].run.http.url
	Problem string
	Fix     string // what to write instead; may be empty
}

func (f Fault) Error() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d", f.Line)
	}
	if f.Field != "" {
		fmt.Fprintf(&b, ": %s", f.Field)
	}
	fmt.Fprintf(&b, ": %s", f.Problem)
	if f.Fix != "" {
		fmt.Fprintf(&b, "; %s", f.Fix)
	}
	return b.String()
}

// Faults is every fault of a configuration, one a line.
type Faults []Fault

func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, one := range f {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.As find a single fault.
func (f Faults) Unwrap() []error {
	errs := make([]error, len(f))
	for i, one := range f {
		errs[i] = one
	}
	return errs
}

// Report gathers faults. Its zero value is ready to use.
type Report struct{ faults Faults }

// Add notes a fault.
func (r *Report) Add(f Fault) { r.faults = append(r.faults, f) }

// Len is the number of faults so far.
func (r *Report) Len() int { return len(r.faults) }

// Err is nil, or all faults in the order of their places.
func (r *Report) Err() error {
	if len(r.faults) == 0 {
		return nil
	}
	out := slices.Clone(r.faults)
	slices.SortStableFunc(out, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return out
}

// Nearest gives the known word that a misspelt one was probably meant to be, or "".
func Nearest(word string, known []string) string {
	best, bestAt := "", 1+max(1, len(word)/3)
	for _, k := range known {
		if d := distance(fold(word), fold(k)); d < bestAt {
			best, bestAt = k, d
		}
	}
	return best
}

// fold makes the usual other spellings of a key equal: retryAfter, retry-after.
func fold(s string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s))
}

// distance is the number of letters to insert, drop or replace; a swap counts as one.
func distance(a, b string) int {
	prev2, prev, cur := []int(nil), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, make([]int, len(b)+1)
	}
	return prev[len(b)]
}
