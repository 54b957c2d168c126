package streamer

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/turnfold/turnfold/subjects/jet"
)

const (
	// retriesSubject is where streamers tell each other of their attempts. Nothing on it
	// is stored or awaited.
	retriesSubject = "tf.retries"

	// budgetSlots is the sliding window, in slots of a second.
	budgetSlots = 10
	budgetSlot  = time.Second
	// budgetSilent is after how many slots a peer that says nothing gets no share any
	// more. What it said before counts until it has left the window.
	budgetSilent = 3

	// fractionMax and perSecondMax keep the sums within their type. budgetCountMax bounds
	// what a peer may claim of one slot.
	fractionMax    = 1000
	perSecondMax   = 1_000_000
	budgetCountMax = 1_000_000_000
	// budgetPeersMax bounds the memory for peers; more are not heard.
	budgetPeersMax = 1000
)

// RetryBudget bounds the retries of all streamers of a deployment together: over ten
// seconds they are at most Fraction of the first attempts, and PerSecond beside that, so
// that low traffic is never starved.
type RetryBudget struct {
	Fraction  float64
	PerSecond int
}

// defaultRetryBudget: a fifth of the traffic again, while a provider is down.
var defaultRetryBudget = RetryBudget{Fraction: 0.2, PerSecond: 10}

func (b RetryBudget) validate() error {
	if !(b.Fraction >= 0 && b.Fraction <= fractionMax) { // also what is no number
		return fmt.Errorf("streamer: RetryBudget.Fraction is %g, it must be 0 to %d", b.Fraction, fractionMax)
	}
	if b.PerSecond < 0 || b.PerSecond > perSecondMax {
		return fmt.Errorf("streamer: RetryBudget.PerSecond is %d, it must be 0 to %d", b.PerSecond, perSecondMax)
	}
	return nil
}

// counts are attempts of one slot.
type counts struct{ first, retry int64 }

// window holds the counts of the last slots; at is the newest of them.
type window struct {
	at    int64
	slots [budgetSlots]counts
}

// move lets time pass up to a slot.
func (w *window) move(to int64) {
	for range min(max(to-w.at, 0), budgetSlots) {
		w.at++
		w.slots[w.at%budgetSlots] = counts{}
	}
	w.at = max(w.at, to)
}

func (w *window) age(n int64) *counts { return &w.slots[(w.at-n+budgetSlots)%budgetSlots] }

func (w *window) sum() (c counts) {
	for _, s := range w.slots {
		c.first += s.first
		c.retry += s.retry
	}
	return c
}

// peer is another streamer, as it has told of itself.
type peer struct {
	window
	heard int64 // slot of its last word
}

// budget is this process's share of the fleet's budget of retries.
//
// Invariant: a process alone never lets more retries through than the budget has.
// Several may go over it by what each was allowed before it heard of the others: one
// slot's share.
type budget struct {
	permille, floor int64
	now             func() time.Time
	name            string // of this process, for its peers

	mu    sync.Mutex
	start time.Time
	own   window
	peers map[string]*peer
}

func newBudget(b RetryBudget, now func() time.Time) *budget {
	return &budget{permille: int64(math.Round(b.Fraction * 1000)), floor: int64(b.PerSecond) * budgetSlots,
		now: now, start: now(), name: rand.Text(), peers: map[string]*peer{}}
}

// tick moves everything to the present slot, and forgets peers that have left the window.
func (b *budget) tick() int64 {
	at := int64(b.now().Sub(b.start)/budgetSlot) + budgetSlots // slots are never negative
	b.own.move(at)
	for name, p := range b.peers {
		if p.move(at); at-p.heard >= budgetSlots {
			delete(b.peers, name)
		}
	}
	return at
}

// first counts a step's first request.
func (b *budget) first() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tick()
	b.own.age(0).first++
}

// retry takes a retry out of the budget, or reports false, with what it has counted.
func (b *budget) retry() (ok bool, fleet counts) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, streamers := b.tick(), int64(1)
	fleet = b.own.sum()
	for _, p := range b.peers {
		c := p.sum()
		fleet.first += c.first
		fleet.retry += c.retry
		if at-p.heard < budgetSilent {
			streamers++
		}
	}
	spent := b.own.age(0).retry
	left := fleet.first*b.permille/1000 + b.floor - fleet.retry + spent // when the slot began
	if left <= 0 || spent >= (left+streamers-1)/streamers {
		return false, fleet
	}
	b.own.age(0).retry++
	return true, fleet
}

// told is what a streamer tells: its counts, the newest slot first.
type told struct {
	V     int     `json:"v"`
	From  string  `json:"from"`
	First []int64 `json:"first"`
	Retry []int64 `json:"retry"`
}

// tell gives the message for the peers. It is told without counts too: who may make a
// retry in the next slot has a share of it now.
func (b *budget) tell() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tick()
	m := told{V: 1, From: b.name}
	for n := range int64(budgetSlots) {
		m.First, m.Retry = append(m.First, b.own.age(n).first), append(m.Retry, b.own.age(n).retry)
	}
	data, _ := json.Marshal(m) // numbers and a name: never fails
	return data
}

// hear takes what a peer tells; what is no such message is left alone.
func (b *budget) hear(data []byte) {
	var m told
	if json.Unmarshal(data, &m) != nil || m.V != 1 || m.From == "" || m.From == b.name ||
		len(m.First) != budgetSlots || len(m.Retry) != budgetSlots {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	at := b.tick()
	if b.peers[m.From] == nil && len(b.peers) >= budgetPeersMax {
		return
	}
	p := &peer{window: window{at: at}, heard: at}
	for n := range int64(budgetSlots) {
		*p.age(n) = counts{bounded(m.First[n]), bounded(m.Retry[n])}
	}
	b.peers[m.From] = p
}

func bounded(n int64) int64 { return min(max(n, 0), budgetCountMax) }

// exchange tells the peers and listens to them until ctx ends. Without it the process
// goes by what it knows of itself.
func (b *budget) exchange(ctx context.Context, conn *jet.Conn) error {
	silence, err := conn.Listen(retriesSubject, func(m jet.Msg) { b.hear(m.Data) })
	if err != nil {
		return err
	}
	defer silence()
	t := time.NewTicker(budgetSlot)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			_ = conn.Broadcast(retriesSubject, b.tell()) // if it is lost, the next comes soon
		}
	}
}
