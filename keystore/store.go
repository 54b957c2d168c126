package keystore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"
)

var (
	// ErrLocked: another process has the directory open. Stop it, or use another
	// directory: two executors with one memory would each trust the other's.
	ErrLocked = errors.New("keystore: directory is in use by another process")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("keystore: closed")
	// ErrInvalid: the argument says nothing that could be kept. Our bug.
	ErrInvalid = errors.New("keystore: invalid argument")
	// ErrOutcomeKnown: the token has another known outcome, which stands.
	ErrOutcomeKnown = errors.New("keystore: another outcome is known")
	// ErrTokenUsed: the token belongs to another claim. Draw a new one.
	ErrTokenUsed = errors.New("keystore: token in use")
	// ErrNotReported: there is no report that could have been published.
	ErrNotReported = errors.New("keystore: no report")
	// ErrCorrupt: a row cannot be read. Stop: guessing could repeat an effect.
	ErrCorrupt = errors.New("keystore: corrupt row")
	// ErrNotWiped: what was to be forgotten is forgotten, but files that hold its bytes are
	// still in use, by a reader perhaps. Erase again.
	ErrNotWiped = errors.New("keystore: old files are still there")
	// ErrFormat: the directory was written by a newer version.
	ErrFormat = errors.New("keystore: format of a newer version")
)

const (
	// formatVersion is raised for a layout that this code could not read.
	formatVersion = 3 // 2: records may hold an identity; 3: files have filters
	// pebbleFormat is fixed, so that a newer library does not by itself make a
	// directory unreadable for the release before.
	pebbleFormat = pebble.FormatValueSeparation

	cacheBytesDefault = 32 << 20
	memTableBytes     = 4 << 20
	openFilesMax      = 512
	// stripes is how many keys can be written at once. Far more than callers, so
	// that two of them rarely wait for each other's sync.
	stripes = 4096
)

// Config opens a Store.
type Config struct {
	// Host is put into the facts that the store returns.
	Host string
	// FS is where the files are. Nil means the operating system's.
	FS vfs.FS
	// CacheBytes bounds the memory for blocks read from disk. Zero means 32 MiB;
	// the write buffers take up to 16 MiB besides.
	CacheBytes int64
	Log        zerolog.Logger
}

// Store is this host's memory of effects. Its methods may be called from any
// goroutine.
type Store struct {
	db   *pebble.DB
	lock *pebble.Lock
	host string
	dir  string
	// files is what db writes to; wiping lets one erasure at a time look at them.
	files  *files
	wiping sync.Mutex
	// incarnation counts the times this directory was opened. It tells what a
	// dead process left from what this one is doing.
	incarnation uint64

	seed   maphash.Seed
	stripe [stripes]stripe

	mu     sync.Mutex
	users  int
	closed bool
	idle   chan struct{} // closed when closed and users == 0
}

// Open opens the store in dir, and creates it if need be.
func Open(dir string, cfg Config) (*Store, error) {
	if cfg.FS == nil {
		cfg.FS = vfs.Default
	}
	if cfg.CacheBytes == 0 {
		cfg.CacheBytes = cacheBytesDefault
	}
	if dir == "" || cfg.CacheBytes < 0 {
		return nil, fmt.Errorf("open key store %q: %w: needs a directory and CacheBytes >= 0", dir, ErrInvalid)
	}
	s := &Store{host: cfg.Host, dir: dir, files: &files{FS: cfg.FS}, seed: maphash.MakeSeed(), idle: make(chan struct{})}
	cfg.FS = s.files
	if err := s.open(dir, cfg); err != nil {
		return nil, fmt.Errorf("open key store %s: %w", dir, err)
	}
	return s, nil
}

func (s *Store) open(dir string, cfg Config) (err error) {
	if err := makeDir(cfg.FS, dir); err != nil {
		return err
	}
	s.lock, err = pebble.LockDirectory(dir, cfg.FS)
	if _, ok := errors.AsType[*fs.PathError](err); err != nil && !ok {
		return fmt.Errorf("%w (%v)", ErrLocked, err)
	}
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.closeFiles())
		}
	}()
	if s.db, err = pebble.Open(dir, options(cfg, s.lock)); err != nil {
		return err
	}
	return s.begin()
}

func options(cfg Config, lock *pebble.Lock) *pebble.Options {
	log := logger{cfg.Log}
	o := &pebble.Options{
		FS:                          cfg.FS,
		Lock:                        lock,
		FormatMajorVersion:          pebbleFormat,
		CacheSize:                   cfg.CacheBytes,
		MemTableSize:                memTableBytes,
		MemTableStopWritesThreshold: 4,
		MaxOpenFiles:                openFilesMax,
		Logger:                      log,
		EventListener: &pebble.EventListener{
			BackgroundError: func(err error) { log.Errorf("key store: %v", err) },
			WriteStallBegin: func(i pebble.WriteStallBeginInfo) {
				cfg.Log.Warn().Str("reason", i.Reason).Msg("key store: writes stall")
			},
		},
	}
	filtered(o)
	return o
}

// begin checks the format and counts the incarnation.
func (s *Store) begin() error {
	version, err := s.number(rowVersion)
	if err != nil {
		return err
	}
	if version > formatVersion {
		return fmt.Errorf("%w: %d", ErrFormat, version)
	}
	if s.incarnation, err = s.number(rowIncarnation); err != nil {
		return err
	}
	s.incarnation++
	b := s.db.NewBatch()
	defer b.Close()
	set(b, rowVersion, binary.AppendUvarint(nil, formatVersion))
	set(b, rowIncarnation, binary.AppendUvarint(nil, s.incarnation))
	return b.Commit(pebble.Sync)
}

// number reads a counter; one that was never written is 0.
func (s *Store) number(row []byte) (uint64, error) {
	v, ok, err := get(s.db, row)
	if !ok || err != nil {
		return 0, err
	}
	n, size := binary.Uvarint(v)
	if size <= 0 {
		return 0, fmt.Errorf("%w: %q", ErrCorrupt, row)
	}
	return n, nil
}

// Close waits for running calls, lets new ones fail, and closes the files.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	s.closed = true
	if s.users == 0 {
		close(s.idle)
	}
	s.mu.Unlock()
	<-s.idle
	return s.closeFiles()
}

func (s *Store) closeFiles() error {
	var err error
	if s.db != nil {
		err = s.db.Close()
	}
	return errors.Join(err, s.lock.Close())
}

// enter starts a call; leave ends it. A call within another (All's function may
// make some) is refused once Close waits, so that neither waits for the other.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.users++
	return nil
}

func (s *Store) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.closed && s.users == 0 {
		close(s.idle)
	}
}

// stripe is the lock of the keys that fall to it. Writers hold it over their sync, so a
// reader that gets it sees only what a power cut would leave.
type stripe struct {
	sync.RWMutex
	// open has the records of claims that were written by this process and are not
	// settled yet: exactly what their rows hold, without the way to the rows.
	open map[claimID]record
}

type claimID struct{ key, token string }

func (s *stripe) keep(id claimID, r record) {
	if s.open == nil {
		s.open = map[claimID]record{}
	}
	s.open[id] = r
}

func (s *Store) guard(key string) *stripe { return &s.stripe[s.stripeOf(key)] }

func (s *Store) stripeOf(key string) uint64 { return maphash.String(s.seed, key) % stripes }

// logger passes the library's messages on. It is chatty: its information is our
// trace.
type logger struct{ log zerolog.Logger }

func (l logger) Infof(format string, args ...any)  { l.log.Trace().Msgf(format, args...) }
func (l logger) Errorf(format string, args ...any) { l.log.Error().Msgf(format, args...) }

// Fatalf must not return: the library calls it when it can no longer keep its
// promises, such as when the log cannot be written.
func (l logger) Fatalf(format string, args ...any) {
	l.log.Error().Msgf(format, args...)
	panic(fmt.Sprintf("key store: "+format, args...))
}
