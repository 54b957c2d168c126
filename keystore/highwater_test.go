package keystore

import (
	"context"
	"crypto/sha256"
	"maps"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func TestMarksSurviveAPowerCut(t *testing.T) {
	ctx := context.Background()
	fs := vfs.NewCrashableMem()
	open := func(fs vfs.FS) *Store {
		s, err := Open("store", Config{Host: "h", FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open(fs)
	set := map[int]Mark{0: {Seq: 7, Digest: sha256.Sum256([]byte("a"))}, 300: {Seq: 1 << 40}}
	for p, m := range set {
		if err := s.SetMark(ctx, p, m); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.SetMark(ctx, 5, Mark{Seq: 1}); err != nil {
		t.Fatal(err)
	}
	if err := s.SetMark(ctx, 5, Mark{}); err != nil { // removes it
		t.Fatal(err)
	}
	after := open(fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 0}))
	got, err := after.Marks()
	if err != nil || !maps.Equal(got, set) {
		t.Errorf("marks %v, %v; want %v", got, err, set)
	}
	for _, s := range []*Store{s, after} {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
