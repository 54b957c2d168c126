package executor

import (
	"context"
	"sync"
)

// desk gives every call one performer at a time, and every key one call at a time
// (docs/invariants.md, I7): within a process no compare-and-set is ever needed to
// find out who works on a key.
type desk struct {
	conduct func(*job) error // brings a job to its outcome
	seats   *seats
	// presentMax bounds a tenant's calls at this desk; more of them are put off.
	presentMax int

	mu      sync.Mutex
	present map[string]int // by tenant
	closed  bool
	jobs    map[string]*job
	lanes   map[string]*lane
	staff   *staff
}

// A tenant may have some times as many calls at a desk as the desk has places, and at
// least so many: enough that no place is idle before those put off come again.
const (
	presentTimes = 4
	presentMin   = 256
)

// lane is the turn-taking of the calls of one key.
type lane struct {
	place chan struct{}
	users int
}

func newDesk(s *seats, conduct func(*job) error) *desk {
	return &desk{conduct: conduct, seats: s, presentMax: max(presentTimes*s.all, presentMin), present: map[string]int{},
		jobs: map[string]*job{}, lanes: map[string]*lane{}, staff: newStaff()}
}

// take starts a job, or joins the one that is under way for the same call; it is then
// the other's outcome that counts. A withdrawal reaches a call that has not begun at
// once, wherever it waits. Nil: the desk is closed. With asked, the caller waits for
// done and then calls leave.
func (d *desk) take(ctx context.Context, j *job, asked bool) *job {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	id := j.id()
	if at, ok := d.jobs[id]; ok {
		if j.isWithdrawn() {
			at.withdraw()
		}
		at.ask(asked)
		return at
	}
	j.ask(asked)
	d.jobs[id] = j
	d.present[j.turn.Tenant]++
	d.staff.do(func() {
		j.err = d.queue(ctx, j)
		d.mu.Lock()
		delete(d.jobs, id)
		if d.present[j.turn.Tenant]--; d.present[j.turn.Tenant] == 0 {
			delete(d.present, j.turn.Tenant)
		}
		d.mu.Unlock()
		close(j.done)
	})
	return j
}

func (j *job) ask(asked bool) {
	if asked {
		j.askers.Add(1)
	}
}

func (j *job) leave() { j.askers.Add(-1) }

// queue waits until no other call of the key is at work. A withdrawn call does not
// wait: it runs nothing, and its compare-and-set is all the order it needs.
func (d *desk) queue(ctx context.Context, j *job) error {
	l := d.lane(j.key)
	defer d.leaveLane(j.key, l)
	select {
	case l.place <- struct{}{}:
		defer func() { <-l.place }()
	case <-j.withdrawn:
	case <-ctx.Done():
		return errStopped
	}
	defer d.giveSlot(j)
	return d.conduct(j)
}

func (d *desk) lane(key string) *lane {
	d.mu.Lock()
	defer d.mu.Unlock()
	l, ok := d.lanes[key]
	if !ok {
		l = &lane{place: make(chan struct{}, 1)}
		d.lanes[key] = l
	}
	l.users++
	return l
}

func (d *desk) leaveLane(key string, l *lane) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(d.lanes, key)
	}
}

// slot gives the job one of the places for running effects, and says whether it had
// to wait for it, or was withdrawn meanwhile.
func (d *desk) slot(ctx context.Context, j *job) (waited bool, err error) {
	waited, j.slot = d.seats.take(ctx, j.turn.Tenant, j.tool(), j.withdrawn)
	if !j.slot && ctx.Err() != nil {
		return waited, ctx.Err()
	}
	return waited, nil
}

func (d *desk) giveSlot(j *job) {
	if j.slot {
		j.slot = false
		d.seats.back(j.turn.Tenant, j.tool())
	}
}

// close lets no job begin any more; the channel is closed when the last has ended.
func (d *desk) close() <-chan struct{} {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	done := make(chan struct{})
	go func() {
		d.staff.end()
		close(done)
	}()
	return done
}
