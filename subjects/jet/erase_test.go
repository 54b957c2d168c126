package jet

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnfold/turnfold/subjects"
)

// holding lists the files under dir that have the text in them.
func holding(t *testing.T, dir, text string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(text)) {
			out = append(out, path)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return holding(t, dir, text) // the server has replaced a file, perhaps by one that was not looked at
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestEraseOverwrites: after Erase no file of the server has a byte of what was erased,
// in full blocks and in the last one, before and after a restart; the neighbours are
// there, and the stream goes on at its sequence.
func TestEraseOverwrites(t *testing.T) {
	h, c := single(t)
	ctx := testContext(t)
	other := subjects.Events(0, subjects.Turn{Tenant: "t", ID: "y"})
	fill := strings.Repeat("x", 60<<10) // a block has 8 MiB: this makes two of them
	for n := range 200 {
		must(c.Publish(ctx, evTurn, nil, fmt.Appendf(nil, "secret-%d %s", n, fill[:n*100])))(t)
		must(c.Publish(ctx, other, nil, fmt.Appendf(nil, "public-%d %s", n, fill)))(t)
	}
	if len(holding(t, h.cfg.StoreDir, "secret-")) < 2 {
		t.Fatal("the secret is in one file only; the test shows too little")
	}
	began := time.Now()
	e, err := c.Erase(ctx, evStream, evTurn, func(m Msg) bool { return m.Seq != 1 })
	if err != nil || e != (Erasure{Messages: 199}) {
		t.Fatalf("erased %+v, %v", e, err)
	}
	t.Logf("%s a message", time.Since(began)/199)
	if e, err = c.Erase(ctx, evStream, evTurn, nil); err != nil || e.Messages != 1 {
		t.Fatalf("erased again %+v, %v", e, err)
	}
	check := func(when string) {
		t.Helper()
		if found := holding(t, h.cfg.StoreDir, "secret-"); len(found) > 0 {
			t.Errorf("%s: bytes are left in %v", when, found)
		}
		n := 0
		must(c.ReadSubject(ctx, evStream, other, 1, 0, func(Msg) error { n++; return nil }))(t)
		if st := must(c.State(ctx, evStream))(t); n != 200 || st.LastSeq != 400 {
			t.Errorf("%s: %d neighbours are left, and the log ends at %d", when, n, st.LastSeq)
		}
	}
	check("at once")
	h.restart()
	check("after a restart")
}

// TestEraseBucket: a value that is replaced leaves no bytes, and neither does one that
// is erased.
func TestEraseBucket(t *testing.T) {
	h, c := single(t)
	ctx := testContext(t)
	b := c.Bucket(subjects.BucketMessages)
	for _, v := range []string{"secret-one", "secret-two", "secret-two"} {
		if err := b.Replace(ctx, "t.x", []byte(v)); err != nil {
			t.Fatal(err)
		}
	}
	if got, rev, ok, err := b.Get(ctx, "t.x"); string(got) != "secret-two" || rev != 2 || !ok || err != nil {
		t.Errorf("the bucket has %q at %d, %v %v", got, rev, ok, err)
	}
	if found := holding(t, h.cfg.StoreDir, "secret-one"); len(found) > 0 {
		t.Errorf("what was replaced is still in %v", found)
	}
	must(b.Erase(ctx, "t.x"))(t)
	if _, _, ok, err := b.Get(ctx, "t.x"); ok || err != nil {
		t.Errorf("what was erased is still there: %v %v", ok, err)
	}
	if found := holding(t, h.cfg.StoreDir, "secret-"); len(found) > 0 {
		t.Errorf("what was erased is still in %v", found)
	}
}

// TestEraseDenied: on a stream that was made to deny deletes nothing can be read any
// more, what stays is still there, and the caller is told that bytes are left.
func TestEraseDenied(t *testing.T) {
	_, c := single(t)
	ctx := testContext(t)
	s, err := c.js.Stream(ctx, evStream)
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	cfg.DenyDelete = true
	if _, err := c.js.UpdateStream(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{"secret", "stays", "secret too"} {
		must(c.Publish(ctx, evTurn, map[string]string{"Tf-X": v}, []byte(v)))(t)
	}
	e, err := c.Erase(ctx, evStream, evTurn, func(m Msg) bool { return string(m.Data) != "stays" })
	if err != nil || !e.Left || e.Messages != 2 {
		t.Errorf("erased %+v, %v", e, err)
	}
	var left []string
	must(c.ReadSubject(ctx, evStream, evTurn, 1, 0, func(m Msg) error { left = append(left, m.Header["Tf-X"]); return nil }))(t)
	if len(left) != 1 || left[0] != "stays" {
		t.Errorf("%q are left", left)
	}
	// A later start changes nothing about such a stream, and finds nothing wrong with it.
	if err := c.Ensure(ctx, subjects.Layout{Partitions: 1, Replicas: 1}); err != nil {
		t.Error(err)
	}
	if err := c.Check(ctx, subjects.Layout{Partitions: 1, Replicas: 1}); err != nil {
		t.Error(err)
	}
}
