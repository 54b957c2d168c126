package archive

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// partMark is in the name of a file that is not whole yet.
const partMark = ".part-"

// WriteWhole makes a file appear only when all of it is on the disk: a crash leaves the
// old file or none, and a leftover that nobody takes for whole.
func WriteWhole(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+partMark+"*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close() // closed already, or of no use any more
			_ = os.Remove(f.Name())
		}
	}()
	w := bufio.NewWriterSize(f, 256<<10)
	if err = write(w); err != nil {
		return err
	}
	if err = errors.Join(w.Flush(), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir has a directory's names on the disk. Where that is not possible, a power cut
// could take the latest back, and nothing else.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	_ = d.Sync()
	return nil
}

// lock keeps a second process out of an archive. The kernel drops the lock with the
// process.
func lock(dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, "archive.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("archive %s: another process works on it", dir), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// sum counts and digests what is written.
type sum struct {
	h hash.Hash
	n int64
}

func newSum() *sum { return &sum{h: sha256.New()} }

func (s *sum) Write(b []byte) (int, error) {
	s.n += int64(len(b))
	return s.h.Write(b)
}

func (s *sum) hex() string { return hex.EncodeToString(s.h.Sum(nil)) }
