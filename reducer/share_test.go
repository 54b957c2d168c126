package reducer

import (
	"fmt"
	"testing"
)

// TestShareIsEvenAndSteady: nobody has two partitions more than another, and one that
// joins or leaves moves about its own share and no more.
func TestShareIsEvenAndSteady(t *testing.T) {
	for partitions := 1; partitions <= 32; partitions++ {
		var before []string
		for n := 1; n <= 9; n++ {
			var members []string
			for i := range n {
				members = append(members, fmt.Sprintf("host-%d", i))
			}
			got := share(partitions, members)
			load := map[string]int{}
			moved := 0
			for p, m := range got {
				load[m]++
				if before != nil && before[p] != m {
					moved++
				}
			}
			for _, m := range members {
				if l := load[m]; l < partitions/n || l > partitions/n+1 {
					t.Errorf("%d partitions, %d members: %s has %d", partitions, n, m, l)
				}
			}
			if bound := 3 * (partitions/n + 1); n > 1 && moved > bound {
				t.Errorf("%d partitions: the %dth member moved %d, more than %d", partitions, n, moved, bound)
			}
			before = got
		}
	}
}
