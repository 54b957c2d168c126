package jet

import (
	"context"
	"errors"
	"fmt"
)

// codeDeleteFailed is also the server's answer for a stream that was made to deny the
// deletion of messages, which nobody can take back (turnfold made such streams once).
const (
	codeDeleteFailed  = 10057
	codeSeqNotFound   = 10043
	deniedDescription = "message delete not permitted"
)

// Erasure is what Erase has done.
type Erasure struct {
	Messages int
	// Left: the stream denies deletes, so its messages were purged. Their bytes stay in
	// its files until the server rewrites those, which it does in its own time.
	Left bool
}

// Erase takes every message of subject (wildcards allowed) that gone approves of out of
// its stream, and has the server overwrite its bytes with random ones: to purge them
// alone would leave those in the stream's files. It is for erasing alone: a log keeps
// what it was told. What it leaves out by an error or a crash, it erases when it is
// called again.
//
// With replicas, the servers' Raft logs keep the bytes until they are compacted.
func (c *Conn) Erase(ctx context.Context, stream, subject string, gone func(Msg) bool) (Erasure, error) {
	var e Erasure
	var seqs []uint64
	if _, err := c.ReadSubject(ctx, stream, subject, 1, 0, func(m Msg) error {
		if gone == nil || gone(m) {
			seqs = append(seqs, m.Seq)
		}
		return nil
	}); err != nil {
		return e, fmt.Errorf("erase %s of %s: %w", subject, stream, err)
	}
	for _, seq := range seqs {
		err := c.eraseOne(ctx, stream, seq)
		if errors.Is(err, errDenied) {
			e.Left = true
			err = c.purgeAround(ctx, stream, subject, gone)
			e.Messages = len(seqs)
			return e, err
		}
		if err != nil {
			return e, fmt.Errorf("erase %d of %s: %w", seq, stream, err)
		}
		e.Messages++
	}
	return e, nil
}

var errDenied = errors.New("jet: the stream denies deletes")

// eraseOne overwrites one message; one that is gone already counts.
func (c *Conn) eraseOne(ctx context.Context, stream string, seq uint64) error {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	req := struct {
		Seq uint64 `json:"seq"`
	}{seq}
	for {
		var answer struct{}
		err := c.request(ctx, "STREAM.MSG.DELETE."+stream, req, &answer, lookTry)
		var api *apiError
		switch {
		case err == nil:
			return nil
		case !errors.As(err, &api): // no answer: ask again, it is done once
		case api.ErrCode == codeDeleteFailed && api.Description == deniedDescription:
			return errDenied
		case api.ErrCode == codeSeqNotFound, api.ErrCode == codeNoMessage:
			return nil
		case api.Code < 500:
			return err
		}
		if sleep(ctx, lookWait) != nil {
			return errors.Join(err, ctx.Err())
		}
	}
}

// purgeAround purges a subject but for the messages that stay, which are written again
// first: the server can only purge what lies before a sequence.
func (c *Conn) purgeAround(ctx context.Context, stream, subject string, gone func(Msg) bool) error {
	var first uint64
	var stay []Msg
	if _, err := c.ReadSubject(ctx, stream, subject, 1, 0, func(m Msg) error {
		if gone != nil && !gone(m) {
			stay = append(stay, m)
		}
		return nil
	}); err != nil {
		return err
	}
	for _, m := range stay {
		seq, err := c.Publish(ctx, m.Subject, m.Header, m.Data)
		if err != nil {
			return fmt.Errorf("keep %d of %s: %w", m.Seq, stream, err)
		}
		if first == 0 {
			first = seq
		}
	}
	return c.purge(ctx, stream, subject, first)
}

// purge drops every message of a subject that lies before a sequence (0: all), and leaves
// their bytes in the stream's files.
func (c *Conn) purge(ctx context.Context, stream, subject string, before uint64) error {
	var answer struct{}
	req := struct {
		Filter string `json:"filter"`
		Before uint64 `json:"seq,omitempty"`
	}{subject, before}
	if err := c.look(ctx, "STREAM.PURGE."+stream, req, &answer); err != nil {
		return fmt.Errorf("purge %s of %s: %w", subject, stream, err)
	}
	return nil
}

// Erase takes a key's value away and has its bytes overwritten.
func (b *Bucket) Erase(ctx context.Context, key string) (Erasure, error) {
	if err := checkKey(key); err != nil {
		return Erasure{}, err
	}
	return b.c.Erase(ctx, bucketStream(b.name), b.subject(key), nil)
}

// Replace sets a key such that no byte of another value that it had is left: a bucket
// drops what is overwritten, but not from its files. The same value again is not stored.
func (b *Bucket) Replace(ctx context.Context, key string, val []byte) error {
	have, _, ok, err := b.Get(ctx, key)
	if err != nil || ok && string(have) == string(val) {
		return err
	}
	if ok {
		if _, err := b.Erase(ctx, key); err != nil {
			return err
		}
	}
	_, err = b.Put(ctx, key, val)
	return err
}
