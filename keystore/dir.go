package keystore

import (
	"errors"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// makeDir creates a directory that a power cut does not take back. A file that is synced
// is lost all the same if the directory above it, or one above that, was never synced,
// and with it everything that was acknowledged (docs/invariants.md, I7). The library
// syncs its own directory alone.
func makeDir(files vfs.FS, dir string) error {
	if err := files.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for at, parent := dir, files.PathDir(dir); parent != at; at, parent = parent, files.PathDir(parent) {
		err := syncDir(files, parent)
		if errors.Is(err, fs.ErrPermission) {
			return nil // not ours, so it was there before
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func syncDir(files vfs.FS, dir string) error {
	d, err := files.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
