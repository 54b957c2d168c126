package jet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnfold/turnfold/subjects"
)

// ErrRestoring: the deployment is being made of archives, or that was interrupted. Run
// turnfold restore again, until it says that it is done.
var ErrRestoring = errors.New("jet: the log is being restored")

// ErrNotFresh: the log holds something. Restore into a store of its own.
var ErrNotFresh = errors.New("jet: the log is not fresh")

// metadataRestoring marks the first stream while a deployment is restored: no process
// serves from it.
const metadataRestoring = "turnfold-restoring"

// BeginRestore makes the streams of a fresh deployment, each to start at a sequence of
// its own (0: the first), and marks it as being restored. What an interrupted restore
// has left is dropped first. ErrNotFresh: there is something of another origin.
func (c *Conn) BeginRestore(ctx context.Context, l subjects.Layout, first map[string]uint64) error {
	if err := l.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrLayout, err)
	}
	c.replicas.Store(int64(l.Replicas))
	if err := c.dropUnfinished(ctx, l); err != nil {
		return err
	}
	for i, s := range l.Streams() {
		cfg := streamConfig(s)
		cfg.FirstSeq = first[s.Name]
		if i == 0 {
			cfg.Metadata = map[string]string{metadataRestoring: "yes"}
			for k, v := range s.Metadata {
				cfg.Metadata[k] = v
			}
		}
		err := c.untilAnswered(ctx, "create stream "+s.Name, func(ctx context.Context) error {
			_, err := c.js.CreateStream(ctx, cfg)
			return err
		})
		if err != nil {
			return err
		}
	}
	for _, name := range buckets {
		if err := c.ensureBucket(ctx, name, l.Replicas); err != nil {
			return err
		}
	}
	return nil
}

// Fresh is ErrNotFresh if the deployment holds anything that a restore has not made.
func (c *Conn) Fresh(ctx context.Context, l subjects.Layout) error {
	_, err := c.unfinished(ctx, l)
	return err
}

// unfinished lists the streams that there are, if they are empty or an interrupted
// restore made them.
func (c *Conn) unfinished(ctx context.Context, l subjects.Layout) (names []string, err error) {
	ours := false
	for i, s := range l.Streams() {
		info, err := c.infoOf(ctx, s.Name)
		if err != nil {
			return nil, err
		}
		if info == nil {
			continue
		}
		if i == 0 {
			ours = info.Config.Metadata[metadataRestoring] != ""
		}
		if !ours && info.State.LastSeq > 0 {
			return nil, fmt.Errorf("%w: %s has had %d messages", ErrNotFresh, s.Name, info.State.LastSeq)
		}
		names = append(names, s.Name)
	}
	for _, b := range buckets {
		if b == subjects.BucketLeases || b == subjects.BucketMembers {
			continue // they say who works, and hold nothing
		}
		info, err := c.infoOf(ctx, bucketStream(b))
		if err != nil {
			return nil, err
		}
		if info == nil {
			continue
		}
		if !ours && info.State.Msgs > 0 {
			return nil, fmt.Errorf("%w: bucket %s has %d entries", ErrNotFresh, b, info.State.Msgs)
		}
		names = append(names, bucketStream(b))
	}
	return names, nil
}

// dropUnfinished removes those streams. The marked one is last: until it is gone, this
// can be done again.
func (c *Conn) dropUnfinished(ctx context.Context, l subjects.Layout) error {
	names, err := c.unfinished(ctx, l)
	if err != nil {
		return err
	}
	marked := l.Streams()[0].Name
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(last(a, marked), last(b, marked)) })
	for _, name := range names {
		err := c.untilAnswered(ctx, "drop stream "+name, func(ctx context.Context) error {
			err := c.js.DeleteStream(ctx, name)
			if errors.Is(err, jetstream.ErrStreamNotFound) {
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func last(name, marked string) int {
	if name == marked {
		return 1
	}
	return 0
}

// EndRestore takes the mark away: the deployment may be served.
func (c *Conn) EndRestore(ctx context.Context, l subjects.Layout) error {
	name := l.Streams()[0].Name
	return c.untilAnswered(ctx, "finish "+name, func(ctx context.Context) error {
		s, err := c.js.Stream(ctx, name)
		if err != nil {
			return err
		}
		cfg := s.CachedInfo().Config
		delete(cfg.Metadata, metadataRestoring)
		_, err = c.js.UpdateStream(ctx, cfg)
		return err
	})
}

// Restoring reports whether the deployment is being restored, or that was interrupted.
func (c *Conn) Restoring(ctx context.Context) (bool, error) {
	info, err := c.infoOf(ctx, subjects.EventsStream(0))
	return info != nil && info.Config.Metadata[metadataRestoring] != "", err
}

// DropFiller takes messages away that kept places for those after them.
func (c *Conn) DropFiller(ctx context.Context, stream, subject string) error {
	return c.purge(ctx, stream, subject, 0)
}

func (c *Conn) infoOf(ctx context.Context, stream string) (*jetstream.StreamInfo, error) {
	var info *jetstream.StreamInfo
	err := c.untilAnswered(ctx, "look at stream "+stream, func(ctx context.Context) error {
		s, err := c.js.Stream(ctx, stream)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil
		}
		if err == nil {
			info = s.CachedInfo()
		}
		return err
	})
	return info, err
}

// SkipWork has the workers of a durable name begin after everything that the stream holds
// now: what was put back is not to be worked on again.
func (c *Conn) SkipWork(ctx context.Context, cfg WorkConfig) error {
	end, err := c.State(ctx, cfg.Stream)
	if err != nil {
		return err
	}
	return c.untilAnswered(ctx, "skip work on "+cfg.Stream, func(ctx context.Context) error {
		s, err := c.js.Stream(ctx, cfg.Stream)
		if err != nil {
			return err
		}
		if _, err := s.CreateOrUpdateConsumer(ctx, cfg.withDefaults().consumer()); err != nil {
			return err
		}
		_, err = s.ResetConsumerToSequence(ctx, cfg.Durable, end.LastSeq+1)
		return err
	})
}
