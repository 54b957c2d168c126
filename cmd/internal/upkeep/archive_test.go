package upkeep

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnfold/turnfold/cmd/internal/stage"
)

// archived are the turns that stay of a log that had more: there are gaps between them.
var archived = []string{"one", "three", "five"}

// write runs five turns and archives three of them.
func (o *office) write(dir string) {
	o.t.Helper()
	o.start()
	for _, id := range []string{"zero", "one", "two", "three", "four", "five"} {
		if id == "three" { // it meets an effect of a turn that stays behind
			o.secrets[id] = o.secrets["two"]
		}
		o.turn(id)
	}
	o.must(append(append([]string{"archive"}, archived...), dir)...)
}

// TestArchiveRestore: archived turns prove themselves without the deployment; put back
// into a fresh one they audit clean, can be shown, fed and exported, and nothing runs
// again: no model is asked, no tool is called, and the effects still deduplicate. The
// restored deployment goes on with new turns.
func TestArchiveRestore(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	dir := filepath.Join(t.TempDir(), "archive")
	o.write(dir)
	before := map[string]string{}
	for _, id := range archived {
		_, before[id] = o.call("GET", "/v1/turns/"+id, "")
	}
	if out := o.must("archive", "one", dir); !strings.Contains(out, "0 turns written") || !strings.Contains(out, "1 there before") {
		t.Errorf("archived again: %s", out)
	}
	if found := holding(t, dir, o.secrets["one"]); len(found) > 0 {
		t.Errorf("the archive is not compressed: %v", found)
	}
	o.p.Kill()
	old := o.p.Dir
	if out := o.must("audit", "verify", dir, "--settled"); !strings.Contains(out, "3 bundles, 0 do not hold") {
		t.Errorf("verify says %s", out)
	}
	o.must("audit", "verify", filepath.Join(dir, "local", "one.ndjson.zst"))

	requests, effects, sent := o.model.Requests(), o.mail.Effects(), len(o.mail.Sent())
	o.p = o.product(filepath.Join(t.TempDir(), "restored"), nil)
	if out := o.must("restore", dir); !strings.Contains(out, "3 turns are back from 3 bundles") {
		t.Errorf("restore says %s", out)
	}
	o.start()
	for _, id := range archived {
		if _, after := o.call("GET", "/v1/turns/"+id, ""); after != before[id] {
			t.Errorf("%s was\n%s\nand is\n%s", id, before[id], after)
		}
		f := stage.NewFollower(o.p, id)
		if err := f.Resume(t.Context()); err != nil || strings.Count(f.Text(), o.secrets[id]) != 2 || len(f.Faults()) > 0 {
			t.Errorf("%s shows %q, %v %v", id, f.Text(), f.Faults(), err)
		}
		if verdict, err := o.p.Audit(t.Context(), id); err != nil || verdict != "" {
			t.Errorf("audit of %s: %q %v", id, verdict, err)
		}
	}
	o.secrets["new"] = o.secrets["one"] // it asks for the same mail
	o.turn("new")
	if n := o.mail.Effects(); n != effects || len(o.mail.Sent()) != sent {
		t.Errorf("%d effects in %d requests, %d in %d before the restore", n, len(o.mail.Sent()), effects, sent)
	}
	if n := o.model.Requests(); n != requests+2 {
		t.Errorf("the model was asked %d times for one new turn", n-requests)
	}
	if err := o.p.Stop(); err != nil {
		t.Fatal(err)
	}
	if out, _, exit := o.verb("audit", "--all", "--settled"); exit != 0 || !strings.Contains(out, "ok: 4 turns, 0 mismatches") {
		t.Errorf("audit: exit %d\n%s", exit, out)
	}
	bundle := filepath.Join(t.TempDir(), "three.ndjson")
	o.must("audit", "export", "three", bundle)
	o.must("audit", "verify", bundle, "--settled")

	// One turn alone, which met an effect of a turn that is nowhere in what is put back.
	alone := filepath.Join(t.TempDir(), "alone")
	mustIn(t, old, "archive", "three", alone)
	single := o.product(filepath.Join(t.TempDir(), "single"), nil)
	mustIn(t, single.Dir, "restore", alone)
	mustIn(t, single.Dir, "audit", "--all", "--settled")
	mustIn(t, single.Dir, "audit", "export", "--all", "all.ndjson")
	mustIn(t, single.Dir, "audit", "verify", "all.ndjson")

	// Into what is not fresh nothing is put.
	if _, errs, exit := o.verb("restore", dir); exit != 2 || !strings.Contains(errs, "not fresh") {
		t.Errorf("restore into a used store: exit %d %s", exit, errs)
	}
	if _, errs, exit := verbIn(t, old, "restore", dir); exit != 2 || !strings.Contains(errs, "not fresh") {
		t.Errorf("restore into the old store: exit %d %s", exit, errs)
	}
}

// TestRestoreRefuses: of what is broken, foreign, newer or unfinished nothing is put
// back, the error says what it is, and the store stays fresh.
func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	dir := filepath.Join(t.TempDir(), "archive")
	o.write(dir)
	other := newOffice(t)
	foreign := filepath.Join(t.TempDir(), "foreign")
	other.start()
	other.turn("alien")
	other.must("archive", "--all", foreign)
	o.p.Kill()
	fresh := o.product(filepath.Join(t.TempDir(), "fresh"), nil)
	file := func(turn string) string { return filepath.Join("local", turn+".ndjson.zst") }
	for _, c := range []struct {
		name, says string
		exit       int
		args       []string
		change     func(t *testing.T, dir string)
	}{
		{name: "a bundle is cut off", says: "has not the bytes", exit: 3, change: func(t *testing.T, dir string) { cut(t, filepath.Join(dir, file("five")), -20) }},
		{name: "a bundle is missing", says: "its file is missing", exit: 3, change: func(t *testing.T, dir string) { remove(t, filepath.Join(dir, file("five"))) }},
		{name: "a bundle is another turn's", says: "has not the bytes", exit: 3, change: func(t *testing.T, dir string) {
			copyFile(t, filepath.Join(dir, file("one")), filepath.Join(dir, file("five")))
		}},
		{name: "the manifest is cut off", says: "manifest is cut off", exit: 3, change: func(t *testing.T, dir string) { cut(t, filepath.Join(dir, "MANIFEST.ndjson"), -200) }},
		{name: "the manifest is changed", says: "the sum does not fit", exit: 3, change: func(t *testing.T, dir string) {
			replace(t, filepath.Join(dir, "MANIFEST.ndjson"), `"last":`, `"last":1`)
		}},
		{name: "there is no manifest", says: "never finished", exit: 3, change: func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "MANIFEST.ndjson")) }},
		{name: "two deployments", says: "restore one deployment at a time", exit: 3, args: []string{foreign}},
		{name: "another deployment", says: "bundle is foreign", exit: 3, args: []string{"--deployment", "0000000000000000"}},
		{name: "other partitions", says: "set it to 4", exit: 2, args: []string{"--set", "partitions=2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := filepath.Join(t.TempDir(), "archive")
			if err := os.CopyFS(bad, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			if c.change != nil {
				c.change(t, bad)
			}
			_, errs, exit := verbIn(t, fresh.Dir, append([]string{"restore", bad}, c.args...)...)
			if exit != c.exit || !strings.Contains(errs, c.says) {
				t.Errorf("exit %d: %s", exit, errs)
			}
		})
	}
	// The store is as it was: what is whole can be put back.
	if out := mustIn(t, fresh.Dir, "restore", dir); !strings.Contains(out, "3 turns are back") {
		t.Errorf("restore says %s", out)
	}
}

func cut(t *testing.T, path string, by int64) {
	t.Helper()
	info, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, info.Size()+by)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func replace(t *testing.T, path, old, by string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(data), old) {
		t.Fatalf("%s has no %q: %v", path, old, err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(data), old, by, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}
