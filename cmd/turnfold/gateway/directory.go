package gateway

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/jet"
)

const (
	// directoryMax is how many turns are kept in mind, the latest ones. One costs about
	// 200 bytes.
	directoryMax = 100_000
	// directoryIdle is after how long without a question the directory is dropped: who
	// never looks at the page pays nothing for it.
	directoryIdle = 15 * time.Minute
)

// directory knows which turns the feeds tell of, and in which order. It is filled from
// the last item of each feed when somebody asks first, and by the hub from then on.
//
// Invariant: once loaded it has every turn of the last directoryMax that has an output.
// What it says of a turn's end is what the feed says.
type directory struct {
	conn       *jet.Conn
	partitions int

	loading sync.Mutex  // one load at a time
	hears   atomic.Bool // the hub's items are noted; changed under mu
	mu      sync.Mutex
	loaded  bool
	asked   time.Time
	size    int
	tenants map[string]*shelf
}

// shelf is the turns of one tenant.
type shelf struct {
	turns map[string]*listed
}

// listed is what is known of a turn without folding it.
type listed struct {
	id     string
	seq    uint64 // of its last item on its partition's outputs
	first  int64  // time of the first item that was heard of, ms since 1970
	last   int64  // time of the last item
	ended  bool
	failed bool // it ended as an apology
	// doubt: the turn may wait for a person, or may have an effect that nobody knows the
	// end of. Looking at the turn tells.
	doubt bool
}

func newDirectory(conn *jet.Conn, partitions int) *directory {
	return &directory{conn: conn, partitions: partitions, tenants: map[string]*shelf{}}
}

// hear notes an item of a feed.
func (d *directory) hear(m jet.Msg) {
	if !d.hears.Load() {
		return // nobody looks: the hub is not held up
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case !d.hears.Load():
	case d.loaded && time.Since(d.asked) > directoryIdle:
		d.drop()
	default:
		d.note(m, false)
	}
}

// forget drops everything: the log has changed under it.
func (d *directory) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop()
}

// erase takes a turn out of the list.
func (d *directory) erase(t subjects.Turn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.tenants[t.Tenant]; s != nil && s.turns[t.ID] != nil {
		delete(s.turns, t.ID)
		d.size--
	}
}

func (d *directory) drop() {
	d.loaded, d.size = false, 0
	d.hears.Store(false)
	clear(d.tenants)
}

// ready loads the directory if it is not.
func (d *directory) ready(ctx context.Context) error {
	d.loading.Lock()
	defer d.loading.Unlock()
	d.mu.Lock()
	d.asked = time.Now()
	done := d.loaded
	if !done {
		d.drop()
		d.hears.Store(true) // before the load, so that nothing falls between the two
	}
	d.mu.Unlock()
	if done {
		return nil
	}
	work, ctx := errgroup.WithContext(ctx)
	for p := range d.partitions {
		work.Go(func() error {
			return d.conn.Latest(ctx, subjects.OutputsStream(p), subjects.OutLane(p, subjects.LaneFeed), func(m jet.Msg) error {
				d.mu.Lock()
				defer d.mu.Unlock()
				d.note(m, true)
				return nil
			})
		})
	}
	if err := work.Wait(); err != nil {
		d.forget()
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.loaded = d.hears.Load() // the log may have changed meanwhile; then the next one loads again
	return nil
}

// note takes an item in, in any order.
func (d *directory) note(m jet.Msg, old bool) {
	_, t, lane, err := subjects.ParseOut(m.Subject)
	if err != nil || lane != subjects.LaneFeed {
		return
	}
	s := d.tenants[t.Tenant]
	if s == nil {
		s = &shelf{turns: map[string]*listed{}}
		d.tenants[t.Tenant] = s
	}
	l := s.turns[t.ID]
	at := m.Time.UnixMilli()
	if l == nil {
		l = &listed{id: t.ID, first: at, doubt: old}
		s.turns[t.ID] = l
		d.size++
	}
	if m.Seq <= l.seq {
		return
	}
	l.seq, l.last = m.Seq, at
	switch typeOf(m.Data) {
	case "message_saved":
		l.ended, l.failed = true, false
	case "error":
		l.ended, l.failed = true, true
	case "approval_request", "tool_result": // also of a turn that has ended
		l.doubt = true
	case "reset":
		if bytes.Contains(m.Data, []byte(`"step":0,`)) { // told again from its start
			l.ended, l.failed = false, false
		}
	}
	if d.size > directoryMax+directoryMax/10 {
		d.trim()
	}
}

// trim lets the oldest turns go.
func (d *directory) trim() {
	var all []int64
	for _, s := range d.tenants {
		for _, l := range s.turns {
			all = append(all, l.last)
		}
	}
	slices.Sort(all)
	oldest := all[max(0, len(all)-directoryMax)]
	d.size = 0
	for _, s := range d.tenants {
		maps.DeleteFunc(s.turns, func(_ string, l *listed) bool { return l.last < oldest })
		d.size += len(s.turns)
	}
}

// of lists a tenant's turns: the open ones first, then the ended ones, each the latest
// first. Open ones keep their places while they go on.
func (d *directory) of(tenant string) []listed {
	out := d.copyOf(tenant)
	slices.SortFunc(out, func(a, b listed) int { // outside of the lock: the hub waits for that
		switch {
		case a.ended != b.ended:
			if b.ended {
				return -1
			}
			return 1
		case a.ended:
			return cmp.Or(cmp.Compare(b.last, a.last), cmp.Compare(b.id, a.id))
		}
		return cmp.Or(cmp.Compare(b.first, a.first), cmp.Compare(b.id, a.id)) // ids are in order of time, unless they were named
	})
	return out
}

func (d *directory) copyOf(tenant string) []listed {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.tenants[tenant]
	if s == nil {
		return nil
	}
	out := make([]listed, 0, len(s.turns))
	for _, l := range s.turns {
		out = append(out, *l)
	}
	return out
}

// settled notes that a turn as of seq neither waits for a person nor leaves a doubt.
func (d *directory) settled(t subjects.Turn, seq uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.tenants[t.Tenant]; s != nil {
		if l := s.turns[t.ID]; l != nil && l.seq == seq {
			l.doubt = false
		}
	}
}

var itemHead = []byte(`{"type":"`)

// typeOf reads the type off an item as the fold spells it.
func typeOf(data []byte) string {
	rest, ok := bytes.CutPrefix(data, itemHead)
	if end := bytes.IndexByte(rest, '"'); ok && end > 0 {
		return string(rest[:end])
	}
	return ""
}
