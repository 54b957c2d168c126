package executor

import (
	"context"
	"crypto/sha256"
	"sync"

	"github.com/turnfold/turnfold/keystore"
)

// marker keeps marks over restarts.
type marker interface {
	SetMark(ctx context.Context, partition int, m keystore.Mark) error
	Marks() (map[int]keystore.Mark, error)
}

// marks are the high-water marks of the effect streams: per partition, the latest
// message that this host saw stored.
type marks struct {
	keep  marker
	parts []partMark
}

type partMark struct {
	mu     sync.Mutex
	at     keystore.Mark
	kept   uint64 // sequence of the mark in the store, synced
	noted  uint64 // and of the one that was noted last
	frozen bool   // the store keeps the old mark until all facts are stated again

	keeping sync.Mutex // one write at a time; those that wait find theirs done
}

func newMarks(keep marker, partitions int) *marks {
	return &marks{keep: keep, parts: make([]partMark, partitions)}
}

// load takes over the marks of the process before.
func (m *marks) load() error {
	all, err := m.keep.Marks()
	if err != nil {
		return err
	}
	for p, mark := range all {
		if p < len(m.parts) {
			m.parts[p].at, m.parts[p].kept = mark, mark.Seq
		}
	}
	return nil
}

func (m *marks) get(p int) keystore.Mark {
	m.parts[p].mu.Lock()
	defer m.parts[p].mu.Unlock()
	return m.parts[p].at
}

// saw raises the mark to a message that is stored.
func (m *marks) saw(p int, seq uint64, data []byte) {
	part := &m.parts[p]
	part.mu.Lock()
	defer part.mu.Unlock()
	if seq > part.at.Seq {
		part.at = keystore.Mark{Seq: seq, Digest: sha256.Sum256(data)}
	}
}

// sync has the store keep a mark at or after seq. It comes before anybody is told
// what the message says: a loss that nobody notices could contradict it.
func (m *marks) sync(ctx context.Context, p int, seq uint64) error {
	part := &m.parts[p]
	part.keeping.Lock()
	defer part.keeping.Unlock()
	part.mu.Lock()
	mark, done := part.at, part.kept >= seq || part.frozen
	part.mu.Unlock()
	if done {
		return nil
	}
	if err := m.keep.SetMark(ctx, p, mark); err != nil {
		return err
	}
	part.mu.Lock()
	defer part.mu.Unlock()
	part.kept = mark.Seq
	return nil
}

// note has write store the latest marks of the partitions that the store does not have
// yet, without waiting for the disk. They come before a report is taken off the outbox,
// in the same batch: a power cut that takes the mark takes the end of the report as well,
// and whoever starts then states the report again.
func (m *marks) note(partitions map[int]bool, write func(latest map[int]keystore.Mark) error) error {
	latest := map[int]keystore.Mark{}
	for p := range m.parts { // in order: whoever takes several locks takes them in one
		part := &m.parts[p]
		if !partitions[p] {
			continue
		}
		part.keeping.Lock()
		defer part.keeping.Unlock()
		part.mu.Lock()
		if part.at.Seq > max(part.kept, part.noted) && !part.frozen {
			latest[p] = part.at
		}
		part.mu.Unlock()
	}
	if err := write(latest); err != nil {
		return err
	}
	for p, mark := range latest {
		m.parts[p].mu.Lock()
		m.parts[p].noted = mark.Seq
		m.parts[p].mu.Unlock()
	}
	return nil
}

// freeze forgets the mark, but not in the store: a process that dies while it states
// its facts again must begin anew.
func (m *marks) freeze(p int) {
	part := &m.parts[p]
	part.mu.Lock()
	defer part.mu.Unlock()
	part.at, part.frozen, part.noted = keystore.Mark{}, true, 0
}

// thaw has the store keep what was seen since freeze.
func (m *marks) thaw(ctx context.Context, p int) error {
	part := &m.parts[p]
	part.keeping.Lock()
	defer part.keeping.Unlock()
	part.mu.Lock()
	mark := part.at
	part.mu.Unlock()
	if err := m.keep.SetMark(ctx, p, mark); err != nil {
		return err
	}
	part.mu.Lock()
	defer part.mu.Unlock()
	part.kept, part.noted, part.frozen = mark.Seq, mark.Seq, false
	return nil
}

func (m *marks) isFrozen(p int) bool {
	m.parts[p].mu.Lock()
	defer m.parts[p].mu.Unlock()
	return m.parts[p].frozen
}
