package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnfold/turnfold/subjects"
)

// MemberConfig says who takes part as what.
type MemberConfig struct {
	Role        string
	Instance    string // survives restarts of the process
	Incarnation string
	TTL         time.Duration // the silence after which a member counts as gone
}

func (m MemberConfig) validate() error {
	if err := errors.Join(checkKey(m.Role+"."+m.Instance), checkKey(m.Incarnation)); err != nil || m.TTL <= 0 {
		return fmt.Errorf("jet: a member needs role, instance, incarnation and TTL; have %q, %q, %q, %s: %w",
			m.Role, m.Instance, m.Incarnation, m.TTL, err)
	}
	return nil
}

// Membership is who takes part in a role, as this process sees it.
//
// Invariant: a member counts as gone only after it has left, or after TTL without a
// sign of life on this process's own monotonic clock, during which this process's own
// signs came through: who cannot hear himself cannot say that the others are silent.
// Views of different processes differ for moments, so nothing but liveness rests on it.
type Membership struct {
	c      *Conn
	cfg    MemberConfig
	cancel context.CancelFunc
	done   sync.WaitGroup

	saying chan struct{} // holds one element if a sign is to be given at once

	mu      sync.Mutex
	note    string          // what our own signs say
	seen    map[string]sign // instance → its latest sign
	heard   time.Time       // arrival of our own latest sign
	synced  bool            // the list was read to its end once
	live    []string        // as last announced, with ourselves
	changed chan struct{}
}

// sign is a sign of life as it arrived.
type sign struct {
	at   time.Time
	note string
}

// memberValue is what the bucket holds.
type memberValue struct {
	leaseValue
	Note string `json:"note,omitempty"`
}

const (
	beatsPerTTL = 4
	// judgesPerTTL is how often silences are looked for at least; one that is known to
	// end sooner is looked at when it does.
	judgesPerTTL = 20
	// deafAfter is the part of TTL after which our own missing sign stops judgement.
	deafAfter = 2
)

// Join announces this process as a member until Leave, or until the connection closes.
func (c *Conn) Join(cfg MemberConfig) (*Membership, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(c.ctx)
	m := &Membership{c: c, cfg: cfg, cancel: cancel, seen: map[string]sign{}, live: []string{cfg.Instance},
		saying: make(chan struct{}, 1), changed: make(chan struct{})}
	for _, f := range []func(context.Context){m.beat, m.watch, m.judge} {
		m.done.Add(1)
		if !c.spawn(func() { defer m.done.Done(); f(ctx) }) {
			cancel()
			m.done.Done()
			return nil, fmt.Errorf("join as %s: %w", cfg.Role, ErrClosed)
		}
	}
	return m, nil
}

func (m *Membership) key() string { return m.cfg.Role + "." + m.cfg.Instance }

// beat gives signs of life.
func (m *Membership) beat(ctx context.Context) {
	every := m.cfg.TTL / beatsPerTTL
	for n := uint64(0); ; n++ {
		m.mu.Lock()
		note := m.note
		m.mu.Unlock()
		val, err := json.Marshal(memberValue{leaseValue{m.cfg.Instance, m.cfg.Incarnation, n}, note})
		if err == nil {
			once, cancel := context.WithTimeout(ctx, max(every, leaseRequestTimeoutMin))
			_, err = m.c.Bucket(subjects.BucketMembers).Put(once, m.key(), val)
			cancel()
		}
		if err != nil && !ended(ctx) {
			m.c.log.Debug().Err(err).Str("role", m.cfg.Role).Msg("no sign of life given")
		}
		next, cancel := context.WithTimeout(ctx, every)
		select {
		case <-next.Done():
		case <-m.saying:
		}
		cancel()
		if ended(ctx) {
			return
		}
	}
}

// Say has the signs of life say something from now on, and gives one at once.
func (m *Membership) Say(note string) {
	m.mu.Lock()
	m.note = note
	m.mu.Unlock()
	select {
	case m.saying <- struct{}{}:
	default:
	}
}

// Notes is what the other instances that take part said last.
func (m *Membership) Notes() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	notes := make(map[string]string, len(m.seen))
	for i, s := range m.seen {
		notes[i] = s.note
	}
	return notes
}

// watch notes the signs of all. A rewound list is read again: its members give signs.
func (m *Membership) watch(ctx context.Context) {
	prefix := bucketPrefix(subjects.BucketMembers) + m.cfg.Role + "."
	for !ended(ctx) {
		err := m.c.tail(ctx, bucketStream(subjects.BucketMembers), []string{prefix + "*"}, 0, func(msg Msg, pending uint64) error {
			m.see(strings.TrimPrefix(msg.Subject, prefix), msg, pending == 0)
			return nil
		})
		if err != nil && sleep(ctx, tailRetryMax) != nil {
			return
		}
	}
}

func (m *Membership) see(instance string, msg Msg, whole bool) {
	var v memberValue
	_ = json.Unmarshal(msg.Data, &v) // of a later format: a sign of life all the same
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	news := false
	switch {
	case instance == m.cfg.Instance:
		if now.Sub(m.heard) > m.cfg.TTL/deafAfter { // deaf until now: the others start anew
			for i, s := range m.seen {
				m.seen[i] = sign{now, s.note}
			}
		}
		m.heard = now
	case deleted(msg):
		delete(m.seen, instance)
	default:
		news = m.seen[instance].note != v.Note
		m.seen[instance] = sign{now, v.Note}
	}
	news = news || whole && !m.synced
	m.synced = m.synced || whole
	m.settle(now, news)
}

// judge finds silences.
func (m *Membership) judge(ctx context.Context) {
	wait := m.cfg.TTL / judgesPerTTL
	for sleep(ctx, wait) == nil {
		m.mu.Lock()
		now := time.Now()
		m.settle(now, false)
		wait = m.cfg.TTL / judgesPerTTL
		for _, s := range m.seen {
			if left := s.at.Add(m.cfg.TTL).Sub(now); left > 0 {
				wait = min(wait, left)
			}
		}
		m.mu.Unlock()
	}
}

// settle drops who was silent for too long, and announces a change.
func (m *Membership) settle(now time.Time, news bool) {
	if until := m.heard.Add(m.cfg.TTL / deafAfter); now.After(until) {
		now = until
	}
	live := []string{m.cfg.Instance}
	for i, s := range m.seen {
		if now.Sub(s.at) >= m.cfg.TTL {
			delete(m.seen, i)
			continue
		}
		live = append(live, i)
	}
	slices.Sort(live)
	if slices.Equal(live, m.live) && !news {
		return
	}
	m.live = live
	close(m.changed)
	m.changed = make(chan struct{})
}

// Live lists the instances that take part, sorted, this one always among them. It is
// false until the list was read: then there may be others.
func (m *Membership) Live() ([]string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.live, m.synced
}

// Changed is closed at the next change of Live or Notes; that the list was read is one.
func (m *Membership) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// Leave ends the membership and tells the others, so that they need not wait for TTL.
func (m *Membership) Leave(ctx context.Context) error {
	m.cancel()
	m.done.Wait()
	ctx, cancel := m.c.bound(ctx)
	defer cancel()
	if err := m.c.Bucket(subjects.BucketMembers).Delete(ctx, m.key()); err != nil {
		return fmt.Errorf("leave as %s: %w", m.cfg.Role, err)
	}
	return nil
}
