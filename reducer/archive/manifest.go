package archive

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/turnfold/turnfold/reducer/audit"
	"github.com/turnfold/turnfold/subjects"
)

// ManifestName is the file that says what an archive holds, written last.
const ManifestName = "MANIFEST.ndjson"

// Format of manifests, raised for a change that is not safe to ignore.
const manifestFormat = 1

const (
	manifestType = "turnfold-archive"
	// manifestLineMax bounds a line. An entry has some names and numbers.
	manifestLineMax = 64 << 10
)

// Manifest says what an archive holds.
type Manifest struct {
	Head    ManifestHead
	Entries map[string]Entry // by tenant/turn
}

// ManifestHead is a manifest's first line.
type ManifestHead struct {
	Type       string `json:"type"` // turnfold-archive
	Format     int    `json:"format"`
	Deployment string `json:"deployment"`
	Partitions int    `json:"partitions"`
	// Complete: the last run came to its end. Else there may be turns to come.
	Complete bool   `json:"complete"`
	Binary   string `json:"binary"`
	Written  string `json:"written"` // RFC 3339, UTC
}

// Entry is a turn in an archive.
type Entry struct {
	Turn   string `json:"turn"` // tenant/turn
	File   string `json:"file"` // within the archive, with slashes
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
	Opened string `json:"opened"` // RFC 3339, UTC
	Last   uint64 `json:"last"`   // sequence of its last event
}

// manifestEnd is the last line: without it the manifest is cut off.
type manifestEnd struct {
	Turns int    `json:"turns"`
	Sum   string `json:"sha256"` // of all bytes before
}

// write replaces the manifest in dir.
func (m *Manifest) write(dir, binary string) error {
	m.Head.Type, m.Head.Format, m.Head.Binary = manifestType, manifestFormat, binary
	m.Head.Written = time.Now().UTC().Format(time.RFC3339)
	err := WriteWhole(filepath.Join(dir, ManifestName), func(w io.Writer) error {
		sum := sha256.New()
		line := func(v any) error {
			data, err := json.Marshal(v, json.Deterministic(true))
			if err != nil {
				return err
			}
			data = append(data, '\n')
			sum.Write(data)
			_, err = w.Write(data)
			return err
		}
		if err := line(m.Head); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(m.Entries)) {
			if err := line(m.Entries[name]); err != nil {
				return err
			}
		}
		return line(manifestEnd{len(m.Entries), hex.EncodeToString(sum.Sum(nil))})
	})
	if err != nil {
		return fmt.Errorf("archive manifest: %w", err)
	}
	return nil
}

// ReadManifest reads and checks the manifest of an archive. It is os.ErrNotExist where
// there is none.
func ReadManifest(dir string) (*Manifest, error) {
	f, err := os.Open(filepath.Join(dir, ManifestName))
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	defer f.Close()
	m, err := readManifest(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, ManifestName), err)
	}
	return m, nil
}

func readManifest(r io.Reader) (*Manifest, error) {
	in := bufio.NewScanner(r)
	in.Buffer(nil, manifestLineMax)
	in.Split(audit.WholeLines)
	bad := func(n int, format string, args ...any) error {
		return fmt.Errorf("%w: line %d: %w", audit.ErrBundle, n, fmt.Errorf(format, args...))
	}
	m := &Manifest{Entries: map[string]Entry{}}
	sum, n, ended := sha256.New(), 0, false
	var line []byte
	for in.Scan() {
		n++
		if ended {
			return nil, bad(n, "something follows the end")
		}
		line = bytes.TrimSuffix(in.Bytes(), []byte{'\n'})
		if bytes.HasPrefix(line, []byte(`{"turns":`)) {
			var end manifestEnd
			if err := audit.Strict(line, &end); err != nil || end.Turns != len(m.Entries) || end.Sum != hex.EncodeToString(sum.Sum(nil)) {
				return nil, bad(n, "it was changed: the sum does not fit")
			}
			ended = true
			continue
		}
		sum.Write(line)
		sum.Write([]byte{'\n'})
		if n == 1 {
			if err := m.readHead(line); err != nil {
				return nil, err
			}
			continue
		}
		var e Entry
		if err := errors.Join(audit.Strict(line, &e), e.check()); err != nil {
			return nil, bad(n, "%w", err)
		}
		if _, twice := m.Entries[e.Turn]; twice {
			return nil, bad(n, "turn %s is there twice", e.Turn)
		}
		m.Entries[e.Turn] = e
	}
	switch err := in.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, bad(n+1, "it is longer than %d bytes", manifestLineMax)
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return nil, err
	case !ended:
		return nil, bad(n, "the manifest is cut off")
	}
	return m, nil
}

func (m *Manifest) readHead(line []byte) error {
	err := audit.Strict(line, &m.Head)
	switch {
	case err != nil || m.Head.Type != manifestType:
		return fmt.Errorf("%w: it is no %s", audit.ErrForeign, manifestType)
	case m.Head.Format > manifestFormat:
		return fmt.Errorf("%w: format %d, known is %d", subjects.ErrNewer, m.Head.Format, manifestFormat)
	case m.Head.Partitions < 1:
		return fmt.Errorf("%w: line 1: it is of %d partitions", audit.ErrBundle, m.Head.Partitions)
	}
	return nil
}

// check refuses an entry that points out of its archive.
func (e Entry) check() error {
	t, err := subjects.ParseTurn(e.Turn)
	if err != nil {
		return err
	}
	if want := path.Join(t.Tenant, t.ID+Suffix); e.File != want {
		return fmt.Errorf("the file of %s is %q, not %q", e.Turn, e.File, want)
	}
	return nil
}
