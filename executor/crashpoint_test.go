package executor

import "testing"

func TestArmCrash(t *testing.T) {
	for _, bad := range []string{"nowhere", "claim:0", "claim:x", "claim:", ":1"} {
		if c, err := armCrash(bad); err == nil || c != nil {
			t.Errorf("%q is armed", bad)
		}
	}
	none, err := armCrash("")
	check(t, err)
	none.pass(crashClaim) // nothing is armed
	c, err := armCrash("claim:2")
	check(t, err)
	died := 0
	c.die = func() { died++ }
	for _, at := range []crashPoint{crashIntent, crashClaim, crashSent, crashClaim, crashClaim} {
		c.pass(at)
	}
	if died != 1 || c.left.Load() != -1 {
		t.Errorf("died %d times, %d left", died, c.left.Load())
	}
}
