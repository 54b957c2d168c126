package archive

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/turnfold/turnfold/reducer/audit"
	"github.com/turnfold/turnfold/subjects/jet"
)

// spool is what restores write to in between: every record once, in the order of its
// stream. The records are in a file that has no name any more once it is open; in memory
// are 24 bytes for each.
type spool struct {
	f      *os.File
	end    int64
	places map[string][]place // by stream
}

// place is where a record lies.
type place struct {
	seq uint64
	at  int64
	len int64
}

// spoolRecord is a stored message in a spool.
type spoolRecord struct {
	Subject string            `json:"s"`
	Header  map[string]string `json:"h,omitzero"`
	AtMS    int64             `json:"t"`
	Data    []byte            `json:"d"`
}

func newSpool(dir string) (*spool, error) {
	if left, err := filepath.Glob(filepath.Join(dir, "restore-*.spool")); err == nil {
		for _, path := range left {
			_ = os.Remove(path) // it is empty: a process was killed before it could take the name away
		}
	}
	f, err := os.CreateTemp(dir, "restore-*.spool")
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	// Content must not outlive the process, whatever ends it.
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &spool{f: f, places: map[string][]place{}}, nil
}

func (s *spool) close() { _ = s.f.Close() } // nothing of it is kept

func (s *spool) add(stream string, m jet.Msg) error {
	data, err := json.Marshal(spoolRecord{m.Subject, m.Header, m.Time.UnixMilli(), m.Data}, json.Deterministic(true))
	if err != nil {
		return err
	}
	if _, err := s.f.WriteAt(data, s.end); err != nil {
		return fmt.Errorf("restore: spool in %s: %w", filepath.Dir(s.f.Name()), err)
	}
	s.places[stream] = append(s.places[stream], place{m.Seq, s.end, int64(len(data))})
	s.end += int64(len(data))
	return nil
}

// sort puts every stream in order and drops what several bundles have. Two different
// messages at one place are of two different logs.
func (s *spool) sort() error {
	for stream, list := range s.places {
		slices.SortFunc(list, func(a, b place) int { return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.at, b.at)) })
		out := list[:0]
		for _, p := range list {
			if len(out) == 0 || out[len(out)-1].seq != p.seq {
				out = append(out, p)
				continue
			}
			same, err := s.same(out[len(out)-1], p)
			if err != nil {
				return err
			}
			if !same {
				return fmt.Errorf("%w: two bundles have different messages %d of %s", audit.ErrForeign, p.seq, stream)
			}
		}
		s.places[stream] = out
	}
	return nil
}

func (s *spool) same(a, b place) (bool, error) {
	x, err := s.raw(a)
	if err != nil || a.len != b.len {
		return false, err
	}
	y, err := s.raw(b)
	return string(x) == string(y), err
}

func (s *spool) raw(p place) ([]byte, error) {
	buf := make([]byte, p.len)
	if _, err := s.f.ReadAt(buf, p.at); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("restore: spool: %w", err)
	}
	return buf, nil
}

// each hands over the records of a stream in order.
func (s *spool) each(stream string, fn func(jet.Msg, int64) error) error {
	for _, p := range s.places[stream] {
		raw, err := s.raw(p)
		if err != nil {
			return err
		}
		var r spoolRecord
		if err := json.Unmarshal(raw, &r); err != nil {
			return fmt.Errorf("restore: spool: %w", err)
		}
		if err := fn(jet.Msg{Seq: p.seq, Subject: r.Subject, Header: r.Header, Data: r.Data}, r.AtMS); err != nil {
			return err
		}
	}
	return nil
}
