package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/turnfold/turnfold/keystore"
	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/jet"
)

// host is one executor with its memory.
type host struct {
	w     *world
	name  string
	dir   string
	store *keystore.Store
	x     *Executor
	cord  *cord
	conn  *jet.Conn
	stop  context.CancelFunc
	done  chan error
	lease time.Duration         // zero: testLease
	wrap  func(effects) effects // nil: the log as it is
	// bodies is wrap for the results; nil: as they are.
	bodies func(bodies) bodies
	fs     *vfs.MemFS // nil: the disk
}

func (w *world) host(name string) *host {
	h := &host{w: w, name: name, dir: filepath.Join(w.t.TempDir(), name)}
	return h
}

// start runs an executor on the host; change may alter its configuration.
func (h *host) start(change ...func(*Config)) *host {
	t := h.w.t
	t.Helper()
	var err error
	cfg := keystore.Config{Host: h.name, Log: zerolog.Nop()}
	if h.fs != nil {
		cfg.FS = h.fs
	}
	h.store, err = keystore.Open(h.dir, cfg)
	check(t, err)
	h.conn = h.w.connect()
	conn, life := h.conn, fmt.Sprint(time.Now().UnixNano())
	lease := cmp.Or(h.lease, testLease)
	members, err := conn.Join(jet.MemberConfig{Role: "executor", Instance: h.name, Incarnation: life, TTL: lease})
	check(t, err)
	c := Config{Conn: conn, Store: h.store, Members: members, Tools: h.w.tools, Turns: turns.NewReader(conn, testPartitions),
		Partitions: testPartitions, Instance: h.name, Incarnation: life,
		LeaseTTL: lease, AckWait: testLease, Grace: 5 * time.Second, Log: testLog(h.name),
		Registerer: prometheus.NewRegistry()}
	for _, f := range change {
		f(&c)
	}
	h.x, err = New(c)
	check(t, err)
	h.cord = &cord{}
	p := h.x.performer
	if h.wrap != nil {
		p.log = h.wrap(p.log)
	}
	if h.bodies != nil {
		p.bodies = h.bodies(p.bodies)
	}
	p.log = cutEffects{p.log, h.cord}
	p.journal, p.turns = cutJournal{p.journal, h.cord}, cutTurns{p.turns, h.cord}
	ctx, stop := context.WithCancel(context.Background())
	h.stop, h.done = stop, make(chan error, 1)
	go func() { h.done <- h.x.Run(ctx) }()
	t.Cleanup(h.end)
	return h
}

// end asks the executor to end, and waits for it.
func (h *host) end() {
	if h.stop == nil {
		return
	}
	h.stop()
	h.stop = nil
	select {
	case err := <-h.done:
		if err != nil && !h.cord.cut.Load() {
			h.w.t.Errorf("run: %v", err)
		}
	case <-time.After(testWait):
		h.w.t.Fatal("executor does not end")
	}
	check(h.w.t, h.store.Close())
	if !h.cord.cut.Load() {
		ctx, cancel := context.WithTimeout(context.Background(), testWait)
		defer cancel()
		_ = h.x.cfg.Members.Leave(ctx) // the log's server may be away
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	_ = h.conn.Close(gone) // from here on nothing of it reaches the log
}

// kill cuts everything that the executor would still say or remember.
func (h *host) kill() {
	h.x.cfg.Grace = time.Nanosecond
	h.cord.cut.Store(true)
	h.end()
}

// cutPower kills the host and leaves of its disk what was synced by then.
func (h *host) cutPower() {
	h.cord.cut.Store(true)
	left := h.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 0})
	h.kill()
	h.fs = left
}

// lose kills the host and its memory.
func (h *host) lose() {
	h.end()
	check(h.w.t, os.RemoveAll(h.dir))
}

var errCut = errors.New("test: cut")

// cord stands between an executor and the world.
type cord struct{ cut atomic.Bool }

func (c *cord) err() error {
	if c.cut.Load() {
		return errCut
	}
	return nil
}

type cutEffects struct {
	effects
	c *cord
}

func (e cutEffects) Append(ctx context.Context, key string, f effect.Fact, body []byte) error {
	if err := e.c.err(); err != nil {
		return err
	}
	return e.effects.Append(ctx, key, f, body)
}

func (e cutEffects) Claim(ctx context.Context, key string, f effect.Fact, last uint64) (uint64, error) {
	if err := e.c.err(); err != nil {
		return 0, err
	}
	return e.effects.Claim(ctx, key, f, last)
}

type cutJournal struct {
	journal
	c *cord
}

func (j cutJournal) Intent(ctx context.Context, in keystore.Intent) error {
	if err := j.c.err(); err != nil {
		return err
	}
	return j.journal.Intent(ctx, in)
}

func (j cutJournal) Abandon(ctx context.Context, key, token string) error {
	if err := j.c.err(); err != nil {
		return err
	}
	return j.journal.Abandon(ctx, key, token)
}

func (j cutJournal) Report(ctx context.Context, rep keystore.Report) error {
	if err := j.c.err(); err != nil {
		return err
	}
	return j.journal.Report(ctx, rep)
}

func (j cutJournal) MarkSettled(ctx context.Context, done []keystore.Settled, marks map[int]keystore.Mark) error {
	if err := j.c.err(); err != nil {
		return err
	}
	return j.journal.MarkSettled(ctx, done, marks)
}

type cutTurns struct {
	settler
	c *cord
}

func (t cutTurns) Settle(ctx context.Context, turn subjects.Turn, b *event.CallSettled) error {
	if err := t.c.err(); err != nil {
		return err
	}
	return t.settler.Settle(ctx, turn, b)
}
