package keystore

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/turnfold/turnfold/subjects/effect"
)

// The power goes right after the first write to a new directory, several levels deep:
// the directory is there, with what was acknowledged.
func TestPowerCutOfNewDirectory(t *testing.T) {
	mem := vfs.NewCrashableMem()
	s := open(t, "/var/lib/turnfold/keystore", mem)
	must(t, s.Report(ctx, Report{Key: keyOf(1), Token: tokenOf(1), Call: "c", Outcome: effect.Succeeded}))
	mem = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 0})
	must(t, s.Close())
	s = open(t, "/var/lib/turnfold/keystore", mem)
	if g, err := s.Glance(keyOf(1)); g.Success == nil || err != nil {
		t.Errorf("the acknowledged success is gone: %v", err)
	}
	must(t, s.Close())
}
