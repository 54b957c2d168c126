package jet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/turnfold/turnfold/subjects"
)

const (
	// duplicateWindow bounds the server's memory of message ids. Nothing rests on it
	// and no message carries one. Server default: 2 minutes.
	duplicateWindow = 5 * time.Second

	ensureParallel = 8
	ensureRetry    = 250 * time.Millisecond
)

// buckets lists the key-value buckets of a deployment.
var buckets = []string{
	subjects.BucketOpenTurns, subjects.BucketUnknown, subjects.BucketLeases, subjects.BucketMembers, subjects.BucketMessages,
	subjects.BucketErasures,
}

// Ensure creates what is missing of the layout, and refuses another layout with
// ErrLayout. It waits for a cluster that elects its leaders, until ctx ends.
func (c *Conn) Ensure(ctx context.Context, l subjects.Layout) error {
	if err := l.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrLayout, err)
	}
	c.replicas.Store(int64(l.Replicas))
	streams := l.Streams()
	// The first stream alone: with another layout, nothing may be created.
	if err := c.ensureStream(ctx, streams[0]); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(ensureParallel)
	for _, s := range streams[1:] {
		g.Go(func() error { return c.ensureStream(gctx, s) })
	}
	for _, name := range buckets {
		g.Go(func() error { return c.ensureBucket(gctx, name, l.Replicas) })
	}
	return g.Wait()
}

// Check refuses with ErrLayout what differs from the layout, all of it at once, and
// changes nothing. It waits for a cluster that elects its leaders, until ctx ends.
func (c *Conn) Check(ctx context.Context, l subjects.Layout) error {
	if err := l.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrLayout, err)
	}
	c.replicas.Store(int64(l.Replicas))
	var want []jetstream.StreamConfig
	for _, s := range l.Streams() {
		want = append(want, streamConfig(s))
	}
	for _, name := range buckets {
		want = append(want, bucketConfig(name, l.Replicas))
	}
	found := make([][]string, len(want))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(ensureParallel)
	for i, w := range want {
		g.Go(func() error {
			return c.untilAnswered(gctx, "check stream "+w.Name, func(ctx context.Context) error {
				have, err := c.js.Stream(ctx, w.Name)
				if errors.Is(err, jetstream.ErrStreamNotFound) {
					found[i] = []string{w.Name + " does not exist"}
					return nil
				}
				if err == nil {
					found[i] = differences(w, have.CachedInfo().Config)
				}
				return err
			})
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if all := slices.Concat(found...); len(all) > 0 {
		return fmt.Errorf("%w: %s", ErrLayout, strings.Join(all, "; "))
	}
	return nil
}

func streamConfig(s subjects.Stream) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              s.Name,
		Subjects:          s.Subjects,
		Retention:         jetstream.LimitsPolicy,
		Storage:           jetstream.FileStorage,
		Discard:           jetstream.DiscardNew,
		MaxAge:            s.MaxAge,
		Replicas:          s.Replicas,
		Duplicates:        duplicateWindow,
		AllowDirect:       true,
		AllowBatchPublish: true,
		Metadata:          s.Metadata,
	}
}

func (c *Conn) ensureStream(ctx context.Context, s subjects.Stream) error {
	return c.untilAnswered(ctx, "ensure stream "+s.Name, func(ctx context.Context) error {
		have, err := c.js.Stream(ctx, s.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			_, err = c.js.CreateStream(ctx, streamConfig(s))
			if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
				return err
			}
			have, err = c.js.Stream(ctx, s.Name) // made meanwhile, by another process
		}
		if err != nil {
			return err
		}
		return c.checkStream(ctx, s, have.CachedInfo().Config)
	})
}

// checkStream refuses a stream of another layout, and gives one of this layout the
// ages and replicas that are asked for now.
func (c *Conn) checkStream(ctx context.Context, want subjects.Stream, have jetstream.StreamConfig) error {
	const key = subjects.MetadataPartitions
	if have.Metadata[metadataRestoring] != "" {
		return fmt.Errorf("%w, or that was interrupted: run turnfold restore again, or remove the streams", ErrRestoring)
	}
	if have.Metadata[key] != want.Metadata[key] {
		return fmt.Errorf("%w: stream %s was created for %s partitions, this process is configured for %s",
			ErrLayout, want.Name, orNone(have.Metadata[key]), want.Metadata[key])
	}
	if have.MaxAge == want.MaxAge && have.Replicas == want.Replicas {
		return nil
	}
	have.MaxAge, have.Replicas = want.MaxAge, want.Replicas
	_, err := c.js.UpdateStream(ctx, have)
	return err
}

func orNone(s string) string {
	if s == "" {
		return "no"
	}
	return s
}

func bucketConfig(name string, replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              bucketStream(name),
		Subjects:          []string{bucketPrefix(name) + ">"},
		Storage:           jetstream.FileStorage,
		Discard:           jetstream.DiscardNew,
		MaxMsgsPerSubject: 1,
		Replicas:          replicas,
		Duplicates:        duplicateWindow,
		AllowRollup:       true, // `nats kv purge`
		AllowDirect:       true,
		AllowMsgTTL:       true,
	}
}

// ensureBucket creates what the client libraries know as a key-value bucket, except
// that its tombstones go away after some time.
func (c *Conn) ensureBucket(ctx context.Context, name string, replicas int) error {
	return c.untilAnswered(ctx, "ensure bucket "+name, func(ctx context.Context) error {
		_, err := c.js.Stream(ctx, bucketStream(name))
		if !errors.Is(err, jetstream.ErrStreamNotFound) {
			return err
		}
		_, err = c.js.CreateStream(ctx, bucketConfig(name, replicas))
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return nil
		}
		return err
	})
}

// untilAnswered repeats f while the server does not answer or is not ready to.
func (c *Conn) untilAnswered(ctx context.Context, what string, f func(context.Context) error) error {
	for told := false; ; {
		once, cancel := context.WithTimeout(ctx, c.timeout)
		err := f(once)
		cancel()
		if err == nil {
			return nil
		}
		if !passing(err) {
			return fmt.Errorf("%s: %w", what, err)
		}
		if !told {
			told = true
			c.log.Info().Err(err).Msg(what + ": the log is not ready; trying again")
		}
		if sleep(ctx, ensureRetry) != nil {
			return fmt.Errorf("%s: %w", what, errors.Join(err, ctx.Err()))
		}
	}
}

// passing says whether an error of an administrative request may go away. That no peers
// suit does when one that is down, or not seen yet, comes back.
func passing(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return int(api.ErrorCode) == codeNoPeers || api.Code == 503 || api.Code == 500 || api.Code == 408 || api.Code == 429
	}
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, nats.ErrTimeout) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, jetstream.ErrNoStreamResponse) ||
		errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrDisconnected)
}
