package keystore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// Mark is a message of the shared log that this host saw stored. If the log no longer
// has it there, it has lost its end, and with it perhaps what this host still knows.
type Mark struct {
	Seq    uint64
	Digest [sha256.Size]byte // of the message's data
}

// rowMark starts the rows of marks; see the table of rows, 'm'.
const rowMark = "mmark"

func markRow(partition int) []byte {
	return binary.BigEndian.AppendUint32([]byte(rowMark), uint32(partition))
}

// SetMark stores the mark of a partition, synced. The zero Mark removes it.
func (s *Store) SetMark(ctx context.Context, partition int, m Mark) error {
	what := fmt.Sprintf("mark %d", partition)
	return s.write(ctx, string(markRow(partition)), what, func(c *change) error {
		if m == (Mark{}) {
			del(c.batch, markRow(partition))
			return nil
		}
		set(c.batch, markRow(partition), m.value())
		return nil
	})
}

func (m Mark) value() []byte {
	return append(binary.BigEndian.AppendUint64(nil, m.Seq), m.Digest[:]...)
}

// Marks gives the marks of all partitions that have one.
func (s *Store) Marks() (map[int]Mark, error) {
	if err := s.enter(context.Background()); err != nil {
		return nil, err
	}
	defer s.leave()
	marks := map[int]Mark{}
	err := each(s.db, []byte(rowMark), func(row, value []byte) error {
		if len(row) != len(rowMark)+4 || len(value) != 8+sha256.Size {
			return fmt.Errorf("%w: mark %q", ErrCorrupt, row)
		}
		m := Mark{Seq: binary.BigEndian.Uint64(value)}
		copy(m.Digest[:], value[8:])
		marks[int(binary.BigEndian.Uint32(row[len(rowMark):]))] = m
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read marks: %w", err)
	}
	return marks, nil
}
