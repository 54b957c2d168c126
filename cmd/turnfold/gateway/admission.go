package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/jet"
)

const (
	// AcceptWithinMin is the least time that a stored turn may wait for its owner before
	// its partition takes no more; an owner that died must be replaced within it.
	AcceptWithinMin = 15 * time.Second
	// probeEvery is how often a turn is let in all the same while turns are refused, to
	// see whether the log still is full, or its owner late.
	probeEvery = time.Second
)

// admission says whether a new turn may come in. What is refused here has left no
// trace; what was let in is never dropped.
//
// It counts the open turns of each tenant by the index that all gateways share, so that
// a limit is the deployment's, and a tenant that reaches it waits for its own turns
// only.
type admission struct {
	perTenant    int // 0: no limit
	acceptWithin time.Duration

	mu      sync.Mutex
	open    map[subjects.Turn]bool
	tenants map[string]int
	queues  []queue   // by partition
	full    time.Time // until when the log counts as full
}

// queue is the turns that were stored here and have no output yet, and what the
// partition's owner says.
type queue struct {
	since  map[subjects.Turn]time.Time
	probed time.Time
	lag    time.Duration // that the owner has told of
	told   time.Time
}

// lagKept is how long an owner's word counts. While it is late it repeats it more often.
const lagKept = time.Second

func newAdmission(partitions, perTenant int, acceptWithin time.Duration) *admission {
	a := &admission{perTenant: perTenant, acceptWithin: acceptWithin, open: map[subjects.Turn]bool{}, tenants: map[string]int{}}
	for range partitions {
		a.queues = append(a.queues, queue{since: map[subjects.Turn]time.Time{}})
	}
	return a
}

// follow keeps the count until ctx ends. While the index cannot be read the last count
// stands.
func (a *admission) follow(ctx context.Context, r *turns.Reader) error {
	for ctx.Err() == nil {
		if err := r.Watch(ctx, a.note); errors.Is(err, jet.ErrClosed) {
			return fmt.Errorf("count open turns: %w", err)
		}
		_ = pause(ctx, tailRetryMin) // the loop looks at ctx
	}
	return nil
}

// note tells of a turn that has come or gone.
func (a *admission) note(t subjects.Turn, open bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case open && !a.open[t]:
		a.open[t] = true
		a.tenants[t.Tenant]++
	case !open && a.open[t]:
		delete(a.open, t)
		delete(a.of(t).since, t)
		if a.tenants[t.Tenant]--; a.tenants[t.Tenant] == 0 {
			delete(a.tenants, t.Tenant)
		}
	}
}

// admit refuses a turn, or lets it in and expects its first output.
func (a *admission) admit(t subjects.Turn) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if a.perTenant > 0 && a.tenants[t.Tenant] >= a.perTenant {
		return fault{http.StatusTooManyRequests, "", fmt.Sprintf("This tenant has %d turns open, as many as it may; try again when one has ended.", a.tenants[t.Tenant])}
	}
	if now.Before(a.full) {
		return fault{http.StatusServiceUnavailable, "", "The log is full and takes no new turns; those that are open are kept. Try again later."}
	}
	q := a.of(t)
	if q.late(now, a.acceptWithin) {
		if now.Sub(q.probed) < probeEvery {
			return fault{http.StatusServiceUnavailable, "", fmt.Sprintf("Turns wait for more than %s to be begun; try again later.", a.acceptWithin)}
		}
		q.probed = now
	}
	q.since[t] = now
	if !a.open[t] { // the index tells of it in a moment; a storm is faster
		a.open[t] = true
		a.tenants[t.Tenant]++
	}
	return nil
}

func (a *admission) of(t subjects.Turn) *queue { return &a.queues[t.Partition(len(a.queues))] }

// overhear listens to how late the owners say they are, until stop.
func (a *admission) overhear(conn *jet.Conn) (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, s := range stops {
			s()
		}
	}
	for p := range a.queues {
		s, err := conn.Listen(subjects.LagSubject(p), func(m jet.Msg) {
			var l subjects.Lag
			if subjects.Open(m.Data, &l) == nil && l.V >= 1 && l.MS >= 0 {
				a.lags(p, time.Duration(min(l.MS, lagMSMax))*time.Millisecond)
			}
		})
		if err != nil {
			stop()
			return nil, err
		}
		stops = append(stops, s)
	}
	return stop, nil
}

// lagMSMax keeps what is told within a duration.
const lagMSMax = 1 << 40

func (a *admission) lags(partition int, lag time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queues[partition].lag, a.queues[partition].told = lag, time.Now()
}

// late says whether turns wait too long: those that were stored here do, or the owner
// says that a new one would.
func (q *queue) late(now time.Time, within time.Duration) bool {
	if q.lag > within && now.Sub(q.told) < lagKept {
		return true
	}
	for _, since := range q.since {
		if now.Sub(since) > within {
			return true
		}
	}
	return false
}

// began tells that a turn has an output. Owners go by the log's order, so those that
// came before it have had theirs, even if it was missed here.
func (a *admission) began(t subjects.Turn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := a.of(t)
	at, ok := q.since[t]
	if !ok {
		return
	}
	for other, since := range q.since {
		if !since.After(at) {
			delete(q.since, other)
		}
	}
}

// refused tells that a turn that was let in was not stored.
func (a *admission) refused(t subjects.Turn, err error) {
	a.mu.Lock()
	if errors.Is(err, jet.ErrFull) {
		a.full = time.Now().Add(probeEvery)
	}
	delete(a.of(t).since, t)
	a.mu.Unlock()
	var f fault
	if !errors.As(err, &f) { // a conflict is about a turn that is there
		a.note(t, false)
	}
}

// attached tells that a turn was there already: whoever opened it waits for its output.
func (a *admission) attached(t subjects.Turn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.of(t).since, t)
}

// awaited says whether any turn of a partition waits; it spares the hub most of its
// questions.
func (a *admission) awaited(partition int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.queues[partition].since) > 0
}

// opened lists the tenant's open turns, as far as the index has told of them.
func (a *admission) opened(tenant string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []string
	for t := range a.open {
		if t.Tenant == tenant {
			out = append(out, t.ID)
		}
	}
	return out
}
