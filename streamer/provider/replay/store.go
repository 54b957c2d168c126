package replay

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// store is a folder of recordings. A file in it is whole or absent.
type store struct {
	dir string
	mu  sync.Mutex
	n   int
}

func openStore(dir string) (*store, error) {
	if dir == "" {
		return nil, errors.New("replay: no folder for the recordings")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil { // prompts are nobody else's business
		return nil, fmt.Errorf("replay: folder for the recordings: %w", err)
	}
	probe, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		return nil, fmt.Errorf("replay: folder for the recordings: %w", err)
	}
	return &store{dir: dir}, errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// save writes a recording and gives its file. The name is made of time, number and API
// alone, never of anything that came over the network.
func (s *store) save(at time.Time, r *Recording) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	api := cmp.Or(API(r.Request.Path), "other")
	for {
		s.n++
		r.Name = fmt.Sprintf("%s-%04d-%s.json", at.UTC().Format("20060102T150405Z"), s.n, api)
		if _, err := os.Lstat(filepath.Join(s.dir, r.Name)); errors.Is(err, os.ErrNotExist) {
			break
		} else if err != nil {
			return "", fmt.Errorf("keep recording: %w", err)
		}
	}
	data, err := r.Encode()
	if err != nil {
		return "", err
	}
	path := filepath.Join(s.dir, r.Name)
	if err := writeWhole(path, data); err != nil {
		return "", fmt.Errorf("keep recording: %w", err)
	}
	return path, nil
}

// writeWhole gives a file its name only once it is on disk.
func writeWhole(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".part-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
