package upkeep

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/turnfold/turnfold/subjects/embed"
)

const passwordEnv = "TURNFOLD_UPKEEP_PASSWORD"

// TestEraseHostAway: an executor that is away while its turn is erased is named, and the
// logs do not wait for it for ever; when it comes back it forgets before it says anything,
// and then the erasure is complete.
func TestEraseHostAway(t *testing.T) {
	t.Parallel()
	nats, err := embed.Start(embed.Config{StoreDir: t.TempDir(), Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nats.Shutdown)
	if err := os.Setenv(passwordEnv, nats.Password()); err != nil { // of this test alone
		t.Fatal(err)
	}
	o := newWorld(t)
	config := map[string]any{"partitions": 2, "nats": map[string]any{"store_dir": "store", "url": nats.URL(), "user": nats.User(), "password_env": passwordEnv}}
	o.p = o.product(filepath.Join(t.TempDir(), "front"), config)
	o.p.Args = []string{"--roles", "gateway,reducer,streamer"}
	away := o.product(filepath.Join(t.TempDir(), "away"), config)
	away.Args = []string{"--roles", "executor"}
	o.start()
	if err := away.Launch(); err != nil {
		t.Fatal(err)
	}
	o.turn("shared")
	away.Kill()
	keys := filepath.Join(away.Dir, "store", "keystore")
	if len(holding(t, keys, o.secrets["shared"])) == 0 {
		t.Fatal("the executor's files do not show the secret; the test shows nothing")
	}
	host, err := os.ReadFile(filepath.Join(away.Dir, "store", "instance"))
	if err != nil {
		t.Fatal(err)
	}
	out, errs, exit := o.verb("erase", "shared")
	if exit != 4 || !strings.Contains(out, "not yet by the hosts "+strings.TrimSpace(string(host))) {
		t.Errorf("erase while the host is away: exit %d %s%s", exit, out, errs)
	}
	if status, _ := o.call("GET", "/v1/turns/shared/feed", ""); status != 410 {
		t.Errorf("the feed answers %d", status)
	}
	if err := away.Launch(); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if out, _, exit := o.verb("erase", "shared"); exit == 0 && strings.Contains(out, "shared: erased\n") {
			break
		} else if time.Now().After(until) {
			t.Fatalf("erase when it is back: exit %d %s", exit, out)
		}
	}
	if found := holding(t, keys, o.secrets["shared"]); len(found) > 0 {
		t.Errorf("the host has come back, and bytes are left in %v", found)
	}
	o.must("audit", "--all")
}

// TestRestoreShared: on NATS servers that run on, a restore that was killed leaves streams
// that are marked: nobody serves or audits them, and the next run starts over.
func TestRestoreShared(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	dir := filepath.Join(t.TempDir(), "archive")
	o.write(dir)
	o.p.Kill()
	nats, err := embed.Start(embed.Config{StoreDir: t.TempDir(), Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nats.Shutdown)
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte(nats.Password()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Setenv(passwordEnv+"_B_FILE", password); err != nil { // of this test alone
		t.Fatal(err)
	}
	p := o.product(filepath.Join(t.TempDir(), "shared"), map[string]any{
		"nats": map[string]any{"store_dir": "store", "url": nats.URL(), "user": nats.User(), "password_env": passwordEnv + "_B"}})
	if err := os.MkdirAll(filepath.Join(p.Dir, "store"), 0o700); err != nil {
		t.Fatal(err)
	}
	half := false
	for after := firstKill; killed(t, p.Dir, after, "restore", dir); after = after * 5 / 4 {
		_, errs, exit := verbIn(t, p.Dir, "audit", "--all")
		if exit == 0 || exit != 4 {
			break // it was killed when all was done
		}
		if strings.Contains(errs, "being restored") && !half {
			half = true
			if err := p.Start(t.Context()); err == nil {
				t.Error("a log that is half restored is served")
			}
			p.Kill()
		}
	}
	if !half {
		t.Error("no kill left a log half restored")
	}
	if out, errs, exit := verbIn(t, p.Dir, "restore", dir); exit != 0 && !strings.Contains(errs, "not fresh") {
		t.Errorf("restore: exit %d %s%s", exit, out, errs)
	}
	if out := mustIn(t, p.Dir, "audit", "--all", "--settled"); !strings.Contains(out, "ok: 3 turns, 0 mismatches") {
		t.Errorf("audit says %s", out)
	}
}
