package reducer_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// swapStream replaces a stream's folder by an older copy of it.
func swapStream(t *testing.T, dir, old, stream string) {
	t.Helper()
	found := ""
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && filepath.Base(path) == filepath.Base(stream) {
			found = path
		}
		return nil
	})
	if found == "" {
		t.Fatalf("no folder of %s under %s", stream, dir)
	}
	rel, _ := filepath.Rel(dir, found)
	if err := os.RemoveAll(found); err != nil {
		t.Fatal(err)
	}
	copyTree(t, filepath.Join(old, rel), found)
}
