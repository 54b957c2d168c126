//go:build unix

package embed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// lockDir keeps a second process out of dir. The kernel drops the lock with the
// process, so a crash leaves nothing to clean up.
func lockDir(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("embed: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("embed: lock %s: %w", path, err)
		}
		holder, _ := os.ReadFile(path) // only to name it
		return nil, fmt.Errorf("%w: %s is locked by process %s", ErrLocked, dir, strings.TrimSpace(string(holder)))
	}
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0) // only to name the holder
	}
	return f, nil
}

// Lock keeps every server out of a store directory until unlock.
func Lock(dir string) (release func(), err error) {
	f, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	return func() { unlock(f) }, nil
}

// StreamsDir is the folder of a store directory that holds the streams.
const StreamsDir = "jetstream"

// lockName is the file that is locked.
const lockName = "turnfold.lock"

// OfProcess reports whether a file of a store directory is of the process that serves it,
// and means nothing anywhere else.
func OfProcess(name string) bool { return name == lockName || name == filepath.Base(addressPath("")) }

// unlock gives the directory up. The file stays: removing it would let two
// processes lock two files of one name.
func unlock(f *os.File) { _ = f.Close() }
