package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestInterruptedMaintenance kills exports at every stage: what then lies under the
// name is nothing or a whole bundle, and running it again completes.
func TestInterruptedMaintenance(t *testing.T) {
	t.Parallel()
	dir := configure(t, provide(t, nil), "")
	s := serve(t, dir)
	if code, out, errs := invoke(t, dir, "run", "Hi", "--turn", "t1", "--server", s.url); code != 0 {
		t.Fatalf("exit %d: %s %s", code, out, errs)
	}
	if code, _ := s.end(t); code != 0 {
		t.Fatalf("serve: exit %d", code)
	}
	bundle := filepath.Join(dir, "all.ndjson")
	killed := 0
	for after := 20 * time.Millisecond; after < time.Second; after += 60 * time.Millisecond {
		cmd := product(t, dir, "audit", "export", "--all", "all.ndjson")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(after)
		_ = cmd.Process.Kill() // it may have ended
		if cmd.Wait() != nil {
			killed++
		}
		if _, err := os.Stat(bundle); errors.Is(err, os.ErrNotExist) {
			continue
		}
		if code, out, errs := invoke(t, dir, "audit", "verify", "all.ndjson"); code != 0 {
			t.Fatalf("killed after %s, what is there does not hold: %s %s", after, out, errs)
		}
		if err := os.Remove(bundle); err != nil {
			t.Fatal(err)
		}
	}
	if killed == 0 {
		t.Error("no export was killed in time")
	}
	// The store serves itself: nothing runs, and nothing is locked.
	for _, args := range [][]string{{"audit", "export", "--all", "all.ndjson"}, {"audit", "verify", "all.ndjson"}, {"audit", "--all", "--settled"}} {
		if code, out, errs := invoke(t, dir, args...); code != 0 {
			t.Errorf("turnfold %v: exit %d: %s %s", args, code, out, errs)
		}
	}
}
