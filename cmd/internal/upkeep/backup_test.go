package upkeep

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBackup: a backup that is copied into a fresh store is the deployment as it was,
// and its effects are not made again.
func TestBackup(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.start()
	o.turn("early")
	dir := filepath.Join(t.TempDir(), "backup")
	if _, errs, exit := o.verb("backup", dir); exit != 4 || !strings.Contains(errs, "stop turnfold serve first") {
		t.Errorf("backup of a store in use: exit %d %s", exit, errs)
	}
	if err := o.p.Stop(); err != nil {
		t.Fatal(err)
	}
	o.must("backup", dir)
	if _, _, exit := o.verb("backup", dir); exit != 2 {
		t.Errorf("a backup is written over: exit %d", exit)
	}
	o.must("backup", "--check", dir)
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.CopyFS(bad, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	replace(t, filepath.Join(bad, "instance"), "-", "+")
	if _, errs, exit := o.verb("backup", "--check", bad); exit != 3 || !strings.Contains(errs, "instance was changed") {
		t.Errorf("a changed backup: exit %d %s", exit, errs)
	}
	o.start()
	o.turn("late")
	o.p.Kill()

	o.p = o.product(filepath.Join(t.TempDir(), "again"), nil)
	if err := os.CopyFS(filepath.Join(o.p.Dir, "store"), os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	o.start()
	o.audited("early")
	if status, _ := o.call("GET", "/v1/turns/late", ""); status != 404 {
		t.Errorf("a turn of after the backup: %d", status)
	}
	effects := o.mail.Effects()
	o.secrets["repeat"] = o.secrets["early"]
	o.turn("repeat")
	if n := o.mail.Effects(); n != effects {
		t.Errorf("%d effects were made again", n-effects)
	}
}

// TestOlderKeyStore: a key store that is older than the log, as one from a backup, costs
// no effect: the log answers for what it has forgotten.
func TestOlderKeyStore(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.start()
	o.turn("early")
	if err := o.p.Stop(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "backup")
	o.must("backup", dir)
	o.start()
	o.turn("late")
	o.p.Kill()
	keys := filepath.Join(o.p.Dir, "store", "keystore")
	if err := os.RemoveAll(keys); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(keys, os.DirFS(filepath.Join(dir, "keystore"))); err != nil {
		t.Fatal(err)
	}
	o.start()
	effects, sent := o.mail.Effects(), len(o.mail.Sent())
	for _, id := range []string{"early", "late"} {
		o.secrets[id+"-again"] = o.secrets[id]
		o.turn(id + "-again")
	}
	if n := o.mail.Effects(); n != effects || len(o.mail.Sent()) != sent {
		t.Errorf("%d effects were made again, in %d requests", n-effects, len(o.mail.Sent())-sent)
	}
	o.audited("early", "late", "early-again", "late-again")
}

// audited checks the verdicts on turns.
func (o *office) audited(turns ...string) {
	o.t.Helper()
	for _, id := range turns {
		if verdict, err := o.p.Audit(o.t.Context(), id); err != nil || verdict != "" {
			o.t.Errorf("audit of %s: %q %v", id, verdict, err)
		}
	}
}
