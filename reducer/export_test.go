package reducer

import (
	"context"
	"time"
)

// Force has the reducer believe that it owns every partition, whoever else does.
func (r *Reducer) Force() {
	r.acquire = func(context.Context, int) (lease, error) { return forced{}, nil }
}

// forced is a lease that nobody can take away.
type forced struct{}

func (forced) Lost() <-chan struct{}         { return nil }
func (forced) Release(context.Context) error { return nil }

// LookAtLagEvery has sessions look how late they are that often.
func (r *Reducer) LookAtLagEvery(d time.Duration) { r.lagEvery = d }
