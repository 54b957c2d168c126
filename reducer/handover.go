package reducer

import (
	"context"
	"strconv"
	"time"

	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/jet"
)

const (
	releaseTimeout = 2 * time.Second
	// takenEvery is how often a partition that was given away is looked at until its
	// new owner has it.
	takenEvery = 20 * time.Millisecond
)

func leaseKey(p int) string { return "partition." + strconv.Itoa(p) }

// lease waits for a partition's lease. Which process is to have it follows from the
// members; that none of it is certain is why the fence decides what counts.
func (r *Reducer) lease(ctx context.Context, p int) (lease, error) {
	cfg := jet.LeaseConfig{Owner: r.cfg.Instance, Incarnation: r.cfg.Incarnation, TTL: r.cfg.LeaseTTL}
	if r.cfg.Members != nil {
		cfg.May = func() bool { return r.mine(p) }
		cfg.Look = r.cfg.Members.Changed
	}
	l, err := r.cfg.Conn.AcquireLease(ctx, leaseKey(p), cfg)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// keep returns when the partition must be let go: true if it goes to another member,
// and then r.giving is held.
func (r *Reducer) keep(ctx context.Context, p int, lost <-chan struct{}) (given bool) {
	for {
		var changed, free = (<-chan struct{})(nil), (chan<- struct{})(nil)
		if r.cfg.Members != nil {
			changed = r.cfg.Members.Changed() // before looking
			if !r.mine(p) {
				free = r.giving
			}
		}
		select {
		case <-ctx.Done():
			return false
		case <-lost:
			return false
		case <-changed:
		case free <- struct{}{}:
			if !r.mine(p) { // while this one waited for its turn, the members may have changed
				return true
			}
			<-r.giving
		}
	}
}

// awaitTaken returns when somebody has the partition that was given away, when it is
// to come back because its new owner has left, or when that one is late.
func (r *Reducer) awaitTaken(ctx context.Context, p int) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.LeaseTTL)
	defer cancel()
	for ctx.Err() == nil && !r.mine(p) {
		if _, _, taken, err := r.cfg.Conn.Bucket(subjects.BucketLeases).Get(ctx, leaseKey(p)); err == nil && taken {
			return
		}
		pause(ctx, takenEvery)
	}
}

// leave tells the other reducers at once that this one ends, for them to take its
// partitions as they come free.
func (r *Reducer) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := r.cfg.Members.Leave(ctx); err != nil {
		r.cfg.Log.Debug().Err(err).Msg("membership not ended; it will run out")
	}
}
