package keystore

import (
	"errors"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// files is the file system of a store. The library writes new logs over old ones, which
// is fast, because the file need not grow; but what a new one does not reach stays
// readable. While somebody wipes, a new log is a new file, and the old one is removed.
type files struct {
	vfs.FS
	wiping atomic.Int32
}

// ReuseForWrite is called for logs alone.
func (f *files) ReuseForWrite(old, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if f.wiping.Load() == 0 {
		return f.FS.ReuseForWrite(old, name, category)
	}
	made, err := f.Create(name, category)
	if err != nil {
		return nil, err
	}
	if err := f.Remove(old); err != nil {
		return nil, errors.Join(err, made.Close())
	}
	return made, nil
}

// Unwrap lets the library find what it knows beneath.
func (f *files) Unwrap() vfs.FS { return f.FS }
