package gateway

import (
	"sync"

	"github.com/turnfold/turnfold/reducer/render"
)

const (
	// Bounds of what waits in memory for one reader. Who falls behind further is served
	// from the log, at its own speed.
	waitingMax      = 256
	waitingBytesMax = 1 << 20
)

// entry is an item at its place on the log.
type entry struct {
	seq  uint64
	item render.Item
}

// news is how a reader must go on.
type news int

const (
	newsItems  news = iota // take the items
	newsLagged             // items were dropped: read the log after the last one sent
	newsRewind             // the log changed: find the last item sent by its id
)

// reader is one open feed's place in the hub.
type reader struct {
	wake chan struct{}

	mu      sync.Mutex
	waiting []entry
	bytes   int
	news    news
}

// put hands over an item without waiting. It is false when the reader has just fallen
// too far behind.
func (r *reader) put(e entry) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.signal()
	if r.news != newsItems {
		return true // it will read the log
	}
	full := len(r.waiting) >= waitingMax || r.bytes+len(e.item.Raw) > waitingBytesMax
	if full && len(r.waiting) > 0 {
		r.waiting, r.bytes, r.news = nil, 0, newsLagged
		return false
	}
	r.waiting = append(r.waiting, e)
	r.bytes += len(e.item.Raw)
	return true
}

func (r *reader) rewound() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting, r.bytes, r.news = nil, 0, newsRewind
	r.signal()
}

// take gives what is waiting. After news other than items, items that come from now
// on are kept again: the log must be read after this call.
func (r *reader) take() ([]entry, news) {
	r.mu.Lock()
	defer r.mu.Unlock()
	waiting, n := r.waiting, r.news
	r.waiting, r.bytes, r.news = nil, 0, newsItems
	return waiting, n
}

func (r *reader) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}
