package jet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	operationHeader = "KV-Operation" // of the client libraries' key-value layout
	operationDelete = "DEL"
	operationPurge  = "PURGE"

	ttlHeader = "Nats-TTL"
	// tombstoneTTL is how long a deleted key leaves a trace, so that a watcher that was
	// away hears of it. Without an end, keys that come once would pile up.
	tombstoneTTL = time.Hour
)

// ErrBadKey: keys are tokens of [A-Za-z0-9_-] joined by dots.
var ErrBadKey = errors.New("jet: bad key")

// Bucket is a key-value bucket that Ensure made. Reads ask the leader, so that they
// see every write acknowledged before.
type Bucket struct {
	c    *Conn
	name string
}

// Bucket names a bucket; it asks nothing.
func (c *Conn) Bucket(name string) *Bucket { return &Bucket{c: c, name: name} }

func bucketStream(name string) string { return "KV_" + name }
func bucketPrefix(name string) string { return "$KV." + name + "." }

func checkKey(key string) error {
	for token := range strings.SplitSeq(key, ".") {
		if token == "" {
			return fmt.Errorf("%w: %q has an empty token", ErrBadKey, key)
		}
		for i := 0; i < len(token); i++ {
			if b := token[i]; b != '_' && b != '-' && (b < '0' || b > '9') && (b < 'A' || b > 'Z') && (b < 'a' || b > 'z') {
				return fmt.Errorf("%w: %q has %q", ErrBadKey, key, b)
			}
		}
	}
	return nil
}

func deleted(m Msg) bool {
	op := m.Header[operationHeader]
	return op == operationDelete || op == operationPurge
}

func (b *Bucket) subject(key string) string { return bucketPrefix(b.name) + key }

// Get is a key's value and revision; false if it has none.
func (b *Bucket) Get(ctx context.Context, key string) (val []byte, rev uint64, ok bool, err error) {
	if err := checkKey(key); err != nil {
		return nil, 0, false, err
	}
	m, ok, err := b.c.LastOf(ctx, bucketStream(b.name), b.subject(key))
	if err != nil || !ok || deleted(m) {
		return nil, 0, false, err
	}
	return m.Data, m.Seq, true, nil
}

// Put sets a key, whatever it was.
func (b *Bucket) Put(ctx context.Context, key string, val []byte) (rev uint64, err error) {
	if err := checkKey(key); err != nil {
		return 0, err
	}
	return b.c.Publish(ctx, b.subject(key), nil, val)
}

// Create sets a key that has no value. ErrConflict: it has one, or may have.
func (b *Bucket) Create(ctx context.Context, key string, val []byte) (rev uint64, err error) {
	rev, err = b.Update(ctx, key, val, 0)
	if !errors.Is(err, ErrConflict) {
		return rev, err
	}
	m, ok, lookErr := b.c.LastOf(ctx, bucketStream(b.name), b.subject(key))
	if lookErr != nil || !ok || !deleted(m) {
		return 0, err
	}
	return b.Update(ctx, key, val, m.Seq)
}

// Update sets a key whose revision is rev. ErrConflict: it is another, or may be.
func (b *Bucket) Update(ctx context.Context, key string, val []byte, rev uint64) (uint64, error) {
	if err := checkKey(key); err != nil {
		return 0, err
	}
	return b.c.PublishAfter(ctx, b.subject(key), nil, val, rev)
}

// Delete takes a key's value away, if it has one.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	_, _, ok, err := b.Get(ctx, key)
	if err != nil || !ok {
		return err
	}
	_, err = b.c.Publish(ctx, b.subject(key), tombstone(), nil)
	return err
}

func tombstone() map[string]string {
	return map[string]string{operationHeader: operationDelete, ttlHeader: tombstoneTTL.String()}
}

// deleteRevision takes a key's value away if its revision is rev.
func (b *Bucket) deleteRevision(ctx context.Context, key string, rev uint64) error {
	_, err := b.c.PublishAfter(ctx, b.subject(key), tombstone(), nil, rev)
	return err
}

// Keys lists the keys that match filter: a key with wildcards, "" for all. It knows
// of every key that had a value when it was called and still has.
func (b *Bucket) Keys(ctx context.Context, filter string) ([]string, error) {
	live := map[string]bool{}
	var order []string
	err := b.c.snapshot(ctx, bucketStream(b.name), b.filter(filter), func(m Msg) {
		key := strings.TrimPrefix(m.Subject, bucketPrefix(b.name))
		if _, seen := live[key]; !seen {
			order = append(order, key)
		}
		live[key] = !deleted(m)
	})
	if err != nil {
		return nil, fmt.Errorf("keys of %s: %w", b.name, err)
	}
	keys := make([]string, 0, len(order))
	for _, key := range order {
		if live[key] {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// Watch calls fn with the current value of every key that matches filter ("" for
// all), then with each change, until ctx ends (nil). Values that were
// overwritten at once may be left out; the last one never is.
func (b *Bucket) Watch(ctx context.Context, filter string, fn func(key string, val []byte, rev uint64, deleted bool)) error {
	return b.c.Tail(ctx, bucketStream(b.name), []string{b.filter(filter)}, 0, func(m Msg) error {
		fn(strings.TrimPrefix(m.Subject, bucketPrefix(b.name)), m.Data, m.Seq, deleted(m))
		return nil
	})
}

func (b *Bucket) filter(f string) string {
	if f == "" {
		f = ">"
	}
	return b.subject(f)
}
