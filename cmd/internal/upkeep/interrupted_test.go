package upkeep

import (
	"bufio"
	"fmt"

	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestInterruptedMaintenance kills whole processes, as kill -9 does, while they archive,
// restore, back up and erase, at moments that differ from run to run: what is half done
// is taken for whole by nobody, and running it again completes it.
func TestInterruptedMaintenance(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.start()
	ids := []string{}
	for n := range 6 {
		ids = append(ids, fmt.Sprintf("turn-%d", n))
		o.turn(ids[n])
	}
	dir := filepath.Join(t.TempDir(), "archive")
	t.Run("archive", func(t *testing.T) { o.killArchive(t, dir, len(ids)) })
	t.Run("restore", func(t *testing.T) { o.killRestore(t, dir, len(ids)) })
	t.Run("erase from the archive", func(t *testing.T) { o.killArchiveErase(t, dir, ids) })
	t.Run("erase", func(t *testing.T) { o.killErase(t, ids[:3]) })
	t.Run("backup", func(t *testing.T) { o.killBackup(t) })
}

// started runs a command of turnfold that the test means to kill.
func started(t *testing.T, dir string, args ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(binary, append(args, "--config", "turnfold.yaml")...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TURNFOLD_STAGE_KEY=stage")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

// Commands are killed ever later, until one comes to its end before that: on any machine
// most of them die in the middle of their work.
const firstKill = 30 * time.Millisecond

func later(after time.Duration) time.Duration {
	return after + time.Duration(float64(after)*(0.5+0.6*rand.Float64()))
}

// killed ends a command after a time, or finds that it has ended.
func killed(t *testing.T, dir string, after time.Duration, args ...string) bool {
	t.Helper()
	cmd, _ := started(t, dir, args...)
	time.Sleep(after)
	_ = cmd.Process.Kill() // it may have ended
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode() < 0
}

func (o *office) killArchive(t *testing.T, dir string, turns int) {
	kills := 0
	for n := range turns {
		// It dies after its n-th turn, and what follows that.
		cmd, lines := started(t, o.p.Dir, "archive", "--all", dir, "--json")
		for seen := 0; seen <= n && lines.Scan(); seen++ {
		}
		time.Sleep(time.Duration(rand.Int64N(int64(4 * time.Millisecond))))
		_ = cmd.Process.Kill()
		if _ = cmd.Wait(); cmd.ProcessState.ExitCode() < 0 {
			kills++
		}
		out, errs, exit := o.verb("audit", "verify", dir)
		switch {
		case exit == 0 && strings.Contains(out, fmt.Sprintf("%d bundles, 0 do not hold", turns)):
		case exit == 3 && (strings.Contains(errs, "never finished") || strings.Contains(errs, "did not come to its end")):
		case exit == 2 && strings.Contains(errs, "no such file"):
		default:
			t.Fatalf("killed after %d turns, verify says: exit %d %s%s", n, exit, out, errs)
		}
	}
	if kills == 0 {
		t.Error("no run was killed in time")
	}
	o.must("archive", "--all", dir)
	if out := o.must("audit", "verify", dir, "--settled"); !strings.Contains(out, fmt.Sprintf("%d bundles, 0 do not hold", turns)) {
		t.Errorf("verify says %s", out)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*", "*.part-*")); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

func (o *office) killRestore(t *testing.T, dir string, turns int) {
	p := o.product(filepath.Join(t.TempDir(), "restored"), nil)
	kills, half := 0, 0
	for after := firstKill; killed(t, p.Dir, after, "restore", dir); after = later(after) {
		kills++
		if _, err := os.Stat(filepath.Join(p.Dir, "store", "nats.restoring")); err == nil {
			half++
		}
		out, errs, exit := verbIn(t, p.Dir, "audit", "--all")
		switch {
		case exit == 4 && strings.Contains(errs, "there is no"): // nothing is there yet
		case exit == 0 && strings.Contains(out, "ok: 0 turns"): // served below
		case exit == 0 && strings.Contains(out, fmt.Sprintf("ok: %d turns", turns)): // it was done
		default:
			t.Fatalf("killed, and an audit says: exit %d %s%s", exit, out, errs)
		}
		if half == 1 { // who serves it all the same serves an empty store
			half++
			if err := p.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := p.Stop(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if half == 0 {
		t.Errorf("no kill of %d left a store half restored", kills)
	}
	if out, errs, exit := verbIn(t, p.Dir, "restore", dir); exit != 0 && !(exit == 2 && strings.Contains(errs, "not fresh")) {
		t.Fatalf("restore: exit %d %s%s", exit, out, errs)
	}
	if out := mustIn(t, p.Dir, "audit", "--all", "--settled"); !strings.Contains(out, fmt.Sprintf("ok: %d turns, 0 mismatches", turns)) {
		t.Errorf("audit says %s", out)
	}
	// A kill may leave the name of a spool, never what was in it, and not for long.
	if left, err := filepath.Glob(filepath.Join(p.Dir, "store", "*.spool")); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

func (o *office) killArchiveErase(t *testing.T, dir string, ids []string) {
	copied := filepath.Join(t.TempDir(), "archive")
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	file := func(id string) string { return filepath.Join(copied, "local", id+".ndjson.zst") }
	// As a crash between the two steps leaves it: out of the manifest, and still there.
	kept, err := os.ReadFile(file(ids[0]))
	if err != nil {
		t.Fatal(err)
	}
	o.must("erase", ids[0], "--archive", copied)
	if err := os.WriteFile(file(ids[0]), kept, 0o600); err != nil {
		t.Fatal(err)
	}
	if out := o.must("audit", "verify", copied); !strings.Contains(out, fmt.Sprintf("%d bundles, 0 do not hold", len(ids)-1)) {
		t.Errorf("verify says %s", out)
	}
	o.must("erase", ids[0], "--archive", copied)
	if _, err := os.Stat(file(ids[0])); err == nil {
		t.Error("the file of an erased turn is still there")
	}
	if out := o.must("archive", "--all", copied); !strings.Contains(out, fmt.Sprintf("0 turns written (0 bytes), %d there before", len(ids)-1)) {
		t.Errorf("archived again: %s", out)
	}
}

func (o *office) killErase(t *testing.T, ids []string) {
	for n, id := range ids {
		done := false
		after := 5 * firstKill
		for try := 0; !done && try < 40; try++ {
			cmd, _ := started(t, o.p.Dir, "erase", id)
			time.Sleep(after)
			after = later(after)
			if try%2 == 0 {
				o.p.Kill()
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if try%2 == 0 {
				o.start()
			}
			out, errs, exit := o.verb("audit", "--all")
			if exit != 0 {
				t.Fatalf("killed while %s was erased, an audit says: exit %d %s%s", id, exit, out, errs)
			}
			done = strings.Contains(out, fmt.Sprintf("%d erased", n+1))
		}
		if out := o.must("erase", id); !strings.Contains(out, "erased") {
			t.Errorf("erase says %s", out)
		}
		o.clean(id, "after kills")
	}
	if err := o.p.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		o.clean(id, "after a stop")
	}
	if out := o.must("audit", "--all", "--settled"); !strings.Contains(out, fmt.Sprintf(" %d erased", len(ids))) {
		t.Errorf("audit says %s", out)
	}
}

// killBackup runs with no turnfold at work on the store.
func (o *office) killBackup(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "backup")
	kills := 0
	for after := firstKill; killed(t, o.p.Dir, after, "backup", dir); after = later(after) {
		kills++
		if _, err := os.Stat(dir); err == nil {
			break // it was killed when all was done
		}
	}
	if kills == 0 {
		t.Error("no backup was killed in time")
	}
	if _, err := os.Stat(dir); err != nil {
		o.must("backup", dir)
	}
	o.must("backup", "--check", dir)
	if left, err := filepath.Glob(dir + ".part-*"); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
	o.must("audit", "--all", "--settled")
}
