package executor

import "sync"

// company is what goes on beside a run of a tool. Most runs end before any of it has to
// begin, and then it costs nothing.
type company struct {
	mu    sync.Mutex
	ended bool
	work  sync.WaitGroup
}

// start makes f a part of the company; called after the end, it does nothing.
func (c *company) start(f func()) func() {
	return func() {
		c.mu.Lock()
		if c.ended {
			c.mu.Unlock()
			return
		}
		c.work.Add(1)
		c.mu.Unlock()
		defer c.work.Done()
		f()
	}
}

// end lets nothing begin any more, and waits for what has.
func (c *company) end() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.work.Wait()
}
