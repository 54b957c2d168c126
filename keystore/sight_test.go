package keystore

import (
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"

	"github.com/turnfold/turnfold/subjects/effect"
)

// TestPrefixes holds the split of rows against the library's three rules for one (the
// documentation of pebble.Split), for every pair of rows of every kind of key, and of
// what is left of them when they are cut short.
func TestPrefixes(t *testing.T) {
	var rows [][]byte
	for _, key := range []string{keyOf(1), keyOf(2), tokenOf(1), "", "a", "ab", "key\x00", string(make([]byte, 200))} {
		fact := factRow(key)
		rows = append(rows, fact, tokenRow(key, t1), tokenRow(key, "x"), notRunRow(key, "1.0"), bodyRow(key, t1), pendingRow(key, t1))
		for n := range fact {
			rows = append(rows, fact[:n])
		}
		for _, row := range [][]byte{fact, tokenRow(key, t1), notRunRow(key, "1.0")} {
			if n := factSplit(row); n != len(fact) {
				t.Errorf("the prefix of %q is %d bytes, not %d", row, n, len(fact))
			}
		}
	}
	rows = append(rows, rowVersion)
	c := byFact()
	for _, a := range rows {
		n := c.Split(a)
		if n < len(a) && c.Compare(a[:n], a) >= 0 {
			t.Errorf("%q is not after its prefix of %d", a, n)
		}
		for _, b := range rows {
			m := c.Split(b)
			prefixes, whole := c.Compare(a[:n], b[:m]), c.Compare(a, b)
			switch {
			case prefixes != 0 && whole != prefixes:
				t.Errorf("%q and %q: %d, their prefixes %d", a, b, whole, prefixes)
			case prefixes == 0 && whole != c.ComparePointSuffixes(a[n:], b[m:]):
				t.Errorf("%q and %q: %d, unlike their suffixes", a, b, whole)
			}
		}
	}
}

// TestNewKeysReadNoBlock: of a compacted store, a look at a key that it has not heard of
// reads the filters alone.
func TestNewKeysReadNoBlock(t *testing.T) {
	s := open(t, t.TempDir(), vfs.Default)
	const keys = 1000
	succeed(t, s, 0, keys)
	if _, err := s.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	before := s.db.Metrics().Filter
	for n := range keys {
		if g, err := s.Glance(keyOf(keys + n)); err != nil || g.Known {
			t.Fatalf("%d: %+v, %v", n, g, err)
		}
	}
	after := s.db.Metrics().Filter
	if kept := after.Hits - before.Hits; kept < keys*95/100 {
		t.Errorf("of %d looks at new keys, filters answered %d", keys, kept)
	}
	for n := range keys {
		if g, err := s.Glance(keyOf(n)); err != nil || g.Success == nil {
			t.Fatalf("%d: %+v, %v", n, g, err)
		}
	}
}

// TestFilesWithoutFilters: what a store wrote before there were filters is found, beside
// what was written since, and after both were written anew.
func TestFilesWithoutFilters(t *testing.T) {
	dir := t.TempDir()
	old := &Store{dir: dir, host: "h1", files: &files{FS: vfs.Default}, idle: make(chan struct{})}
	var err error
	old.lock, err = pebble.LockDirectory(dir, vfs.Default)
	must(t, err)
	o := options(Config{FS: vfs.Default, CacheBytes: cacheBytesDefault, Log: zerolog.Nop()}, old.lock)
	o.Comparer, o.KeySchema, o.KeySchemas, o.Levels = nil, "", nil, pebble.Options{}.Levels
	old.db, err = pebble.Open(dir, o)
	must(t, err)
	must(t, old.begin())
	succeed(t, old, 0, 500)
	if _, err := old.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	must(t, old.Close())

	s := open(t, dir, vfs.Default)
	all := func(when string, to int) {
		t.Helper()
		for n := range 1500 {
			g, err := s.Glance(keyOf(n))
			if err != nil || g.Known != (n < to) || g.Known != (g.Success != nil) {
				t.Fatalf("%s, %d: %+v, %v", when, n, g, err)
			}
		}
		seen := 0
		must(t, s.All(func(string, []effect.Fact) error { seen++; return nil }))
		if seen != to {
			t.Errorf("%s: %d keys, want %d", when, seen, to)
		}
	}
	all("old files", 500)
	succeed(t, s, 500, 1000)
	must(t, s.db.Flush())
	all("old and new files", 1000)
	if _, err := s.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	all("written anew", 1000)
}

// succeed stores a success for each key from one number up to another.
func succeed(t *testing.T, s *Store, from, to int) {
	t.Helper()
	n := from
	must(t, s.Import(ctx, func() (Intent, Report, bool) {
		if n == to {
			return Intent{}, Report{}, false
		}
		in := Intent{Key: keyOf(n), Token: tokenOf(n), Call: "c"}
		n++
		return in, Report{Key: in.Key, Token: in.Token, Outcome: effect.Succeeded, Body: []byte("done")}, true
	}))
}
