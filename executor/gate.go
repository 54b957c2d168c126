package executor

import (
	"context"
	"sync"
)

// gate is closed while the log may have lost facts that this host, or another, still
// remembers. Behind it nothing is claimed, withdrawn or settled, except what is known
// to have succeeded.
//
// Each closing starts another epoch: what was read in an earlier one may be read from
// an end of the log that is gone, whose sequences are used again.
type gate struct {
	mu    sync.Mutex
	epoch uint64
	open  chan struct{} // closed when the gate is open
}

func newGate() *gate { return &gate{open: make(chan struct{})} }

// wait returns the epoch once the gate is open.
func (g *gate) wait(ctx context.Context) (uint64, error) {
	for {
		g.mu.Lock()
		open, epoch := g.open, g.epoch
		g.mu.Unlock()
		select {
		case <-open:
			return epoch, nil
		default:
		}
		select {
		case <-open:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// current says that the gate has not been closed since wait returned epoch.
func (g *gate) current(epoch uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.epoch == epoch
}

// close starts an epoch.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.epoch++
	select {
	case <-g.open:
		g.open = make(chan struct{})
	default: // closed already
	}
}

// started gives the epoch that a check begins in.
func (g *gate) started() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.epoch
}

// release opens the gate, unless it has been closed again since epoch started.
func (g *gate) release(epoch uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.epoch != epoch {
		return false
	}
	select {
	case <-g.open:
	default:
		close(g.open)
	}
	return true
}

// unconfirmed holds the tokens whose claim is not known to be on the log. Nobody may
// state them again: that would be a claim without a compare-and-set.
type unconfirmed = tokenSet

// tokenSet is a set of claims.
type tokenSet struct {
	mu     sync.Mutex
	tokens map[string]bool
}

func (u *tokenSet) add(token string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.tokens == nil {
		u.tokens = map[string]bool{}
	}
	u.tokens[token] = true
}

func (u *tokenSet) remove(token string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.tokens, token)
}

func (u *tokenSet) has(token string) bool {
	if u == nil {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.tokens[token]
}
