package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/turnfold/turnfold/subjects"
)

// LeaseConfig says who wants a lease.
type LeaseConfig struct {
	Owner string // survives restarts of the process
	// Incarnation is unique to this run of the owner. A lease of the same owner with
	// another incarnation is of a dead predecessor and is taken over at once.
	Incarnation string
	TTL         time.Duration // the silence after which a lease is over
	// May says whether this process is the one to take a lease that is free or over. If
	// it is not, it takes one all the same that nobody has taken for strayTTLs: whoever
	// should have may think the same of another. Nil: it may.
	May func() bool
	// Look has the lease looked at anew, as when May has changed; it may be nil.
	Look func() <-chan struct{}
}

// strayTTLs is how many TTLs a lease may lie about.
const strayTTLs = 3

func (l LeaseConfig) may() bool { return l.May == nil || l.May() }

func (l LeaseConfig) look() <-chan struct{} {
	if l.Look == nil {
		return nil
	}
	return l.Look()
}

func (l LeaseConfig) validate() error {
	if l.Owner == "" || l.Incarnation == "" || l.TTL <= 0 {
		return fmt.Errorf("jet: a lease needs owner, incarnation and TTL; have %q, %q, %s", l.Owner, l.Incarnation, l.TTL)
	}
	return nil
}

// Lease is held from AcquireLease until Lost or Release. It decides who works, never
// whose writes count: between a pause of the holder and its noticing, two work.
type Lease struct {
	b      *Bucket
	key    string
	cfg    LeaseConfig
	lost   chan struct{}
	cancel context.CancelFunc
	done   chan struct{} // the renewing goroutine has ended

	mu  sync.Mutex
	rev uint64
}

// leaseValue is what the bucket holds. Each renewal has another beat, so that a
// challenger sees it.
type leaseValue struct {
	Owner       string `json:"owner"`
	Incarnation string `json:"incarnation"`
	Beat        uint64 `json:"beat"`
}

const (
	renewalsPerTTL = 3
	looksPerTTL    = 8
	// leaseRequestTimeoutMin bounds one renewal from below, against a tiny TTL.
	leaseRequestTimeoutMin = 50 * time.Millisecond
)

// leaseTouched is broadcast when a lease is renewed or given back, for challengers to
// look at once: one that looks only now and then counts the holder's silence from when
// it looked, and comes that much too late.
func leaseTouched(key string) string { return "tf.lease." + key }

// AcquireLease returns when the lease is held, or when ctx ends. It takes a lease
// that is free, that an earlier incarnation of the same owner left, or that has not
// changed for TTL on this process's own monotonic clock.
func (c *Conn) AcquireLease(ctx context.Context, key string, cfg LeaseConfig) (*Lease, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	touched := make(chan struct{}, 1)
	stop, err := c.Listen(leaseTouched(key), func(Msg) {
		select {
		case touched <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return nil, err
	}
	defer stop()
	a := &challenge{b: c.Bucket(subjects.BucketLeases), key: key, cfg: cfg}
	for {
		look := cfg.look()  // before looking, so that no change is missed
		start := time.Now() // before the write: the others count from after it
		rev, err := a.try(ctx)
		if err == nil && rev != 0 {
			return c.holdLease(a, rev, start)
		}
		if err != nil {
			c.log.Debug().Err(err).Str("lease", key).Msg("lease not taken")
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("acquire lease %s: %w", key, ctx.Err())
		case <-c.ctx.Done():
			return nil, fmt.Errorf("acquire lease %s: %w", key, ErrClosed)
		case <-touched:
		case <-look:
		case <-time.After(a.wait()):
		}
	}
}

// challenge is one wish for a lease.
type challenge struct {
	b    *Bucket
	key  string
	cfg  LeaseConfig
	rev  uint64    // of the holder, as last seen
	seen time.Time // when this revision was first seen
	free time.Time // since when nobody holds it, as far as was seen; zero: somebody does
}

// wait is when to look again: often, and exactly when the holder's time is over.
func (a *challenge) wait() time.Duration {
	d := a.cfg.TTL / looksPerTTL
	if left := time.Until(a.seen.Add(a.cfg.TTL)); left > 0 && left < d {
		d = left
	}
	return max(d, time.Millisecond)
}

// stray says that a lease was nobody's for so long that whose turn it is no longer
// matters.
func (a *challenge) stray(since time.Time) bool {
	return time.Since(since) >= strayTTLs*a.cfg.TTL
}

// try takes the lease if it may; revision 0 means it may not yet.
func (a *challenge) try(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, max(a.cfg.TTL, leaseRequestTimeoutMin))
	defer cancel()
	raw, rev, ok, err := a.b.Get(ctx, a.key)
	if err != nil {
		return 0, err
	}
	mine, err := json.Marshal(leaseValue{Owner: a.cfg.Owner, Incarnation: a.cfg.Incarnation})
	if err != nil {
		return 0, err
	}
	if !ok {
		if a.free.IsZero() {
			a.free = time.Now()
		}
		if !a.cfg.may() && !a.stray(a.free) {
			return 0, nil
		}
		return a.b.Create(ctx, a.key, mine)
	}
	a.free = time.Time{}
	var holder leaseValue
	if err := json.Unmarshal(raw, &holder); err != nil {
		holder = leaseValue{} // not ours to read; treated as a stranger
	}
	if holder.Owner == a.cfg.Owner { // a dead predecessor, or an own write whose answer was lost
		return a.b.Update(ctx, a.key, mine, rev)
	}
	if rev != a.rev {
		a.rev, a.seen = rev, time.Now()
	}
	if time.Since(a.seen) < a.cfg.TTL || !a.cfg.may() && !a.stray(a.seen) {
		return 0, nil
	}
	return a.b.Update(ctx, a.key, mine, rev)
}

func (c *Conn) holdLease(a *challenge, rev uint64, start time.Time) (*Lease, error) {
	ctx, cancel := context.WithCancel(c.ctx)
	l := &Lease{b: a.b, key: a.key, cfg: a.cfg, rev: rev, cancel: cancel, lost: make(chan struct{}), done: make(chan struct{})}
	if !c.spawn(func() { l.renew(ctx, start) }) {
		cancel()
		return nil, fmt.Errorf("acquire lease %s: %w", a.key, ErrClosed)
	}
	return l, nil
}

// Lost is closed when the lease is held no longer, after Release too.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// held is how long a holder believes in a renewal: not quite TTL, so that it has noticed
// when a challenger comes, who may have seen the renewal at once.
func (l *Lease) held() time.Duration { return l.cfg.TTL - l.cfg.TTL/8 }

// renew keeps the lease until it is lost or ctx ends. The last renewal counts from
// before it was sent, so that the holder stops before any challenger starts.
func (l *Lease) renew(ctx context.Context, renewed time.Time) {
	defer close(l.done)
	defer close(l.lost)
	for beat := uint64(1); ; beat++ {
		wait := l.cfg.TTL / renewalsPerTTL
		if left := time.Until(renewed.Add(l.held())); left < wait {
			wait = left / 2
		}
		if sleep(ctx, max(wait, time.Millisecond)) != nil {
			return
		}
		start := time.Now()
		err := l.beat(ctx, beat, renewed.Add(l.held()))
		switch {
		case err == nil:
			renewed = start
		case errors.Is(err, errNotMine), ended(ctx), time.Since(renewed) >= l.held():
			return
		}
	}
}

var errNotMine = errors.New("jet: lease is another's")

// beat renews once, not beyond the deadline.
func (l *Lease) beat(ctx context.Context, beat uint64, deadline time.Time) error {
	wait := max(time.Until(deadline), leaseRequestTimeoutMin)
	ctx, cancel := context.WithTimeout(ctx, min(wait, l.cfg.TTL/2+leaseRequestTimeoutMin))
	defer cancel()
	raw, err := json.Marshal(leaseValue{l.cfg.Owner, l.cfg.Incarnation, beat})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	rev, err := l.b.Update(ctx, l.key, raw, l.rev)
	if err == nil {
		l.rev = rev
		_ = l.b.c.Broadcast(leaseTouched(l.key), nil) // a courtesy: they also look by themselves
		return nil
	}
	return errors.Join(err, l.look(ctx))
}

// look finds out what became of a renewal without a clear answer.
func (l *Lease) look(ctx context.Context) error {
	raw, rev, ok, err := l.b.Get(ctx, l.key)
	if err != nil {
		return err
	}
	var holder leaseValue
	if !ok || json.Unmarshal(raw, &holder) != nil || holder.Owner != l.cfg.Owner || holder.Incarnation != l.cfg.Incarnation {
		return errNotMine
	}
	l.rev = rev
	return nil
}

// Release gives the lease back, so that another can take it at once. Stop the work
// first. Without success, the others wait for TTL.
func (l *Lease) Release(ctx context.Context) error {
	l.cancel()
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := l.b.c.bound(ctx)
	defer cancel()
	err := l.b.deleteRevision(ctx, l.key, l.rev)
	if errors.Is(err, ErrConflict) && l.look(ctx) == nil { // a renewal was stored without an answer
		err = l.b.deleteRevision(ctx, l.key, l.rev)
	}
	if errors.Is(err, ErrConflict) {
		return nil // another's already
	}
	if err != nil {
		return fmt.Errorf("release lease %s: %w", l.key, err)
	}
	return l.b.c.Broadcast(leaseTouched(l.key), nil)
}
