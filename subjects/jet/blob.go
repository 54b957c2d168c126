package jet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnfold/turnfold/subjects"
)

// PutBlob stores content under its digest (SHA-256, hex). Putting it again does
// nothing. On an error, put it again.
func (c *Conn) PutBlob(ctx context.Context, data []byte) (digest string, err error) {
	sum := sha256.Sum256(data)
	digest = hex.EncodeToString(sum[:])
	store, err := c.blobs(ctx)
	if err != nil {
		return "", fmt.Errorf("put blob: %w", err)
	}
	if info, err := store.GetInfo(ctx, digest); err == nil && info.Size == uint64(len(data)) {
		return digest, nil
	}
	if _, err := store.PutBytes(ctx, digest, data); err != nil {
		return "", fmt.Errorf("put blob %s: %w", digest, classify(err))
	}
	return digest, nil
}

// GetBlob reads content by its digest and checks it. ErrNotFound: there is none;
// ErrCorrupt: what is there is not it.
func (c *Conn) GetBlob(ctx context.Context, digest string) ([]byte, error) {
	store, err := c.blobs(ctx)
	if err != nil {
		return nil, fmt.Errorf("get blob %s: %w", digest, err)
	}
	data, err := store.GetBytes(ctx, digest)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil, fmt.Errorf("get blob %s: %w", digest, ErrNotFound)
	}
	if errors.Is(err, jetstream.ErrDigestMismatch) {
		return nil, fmt.Errorf("get blob %s: %w", digest, ErrCorrupt)
	}
	if err != nil {
		return nil, fmt.Errorf("get blob %s: %w", digest, err)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != digest {
		return nil, fmt.Errorf("get blob %s: %w", digest, ErrCorrupt)
	}
	return data, nil
}

// blobs opens the object store, and makes it at its first use: most deployments
// never need it.
func (c *Conn) blobs(ctx context.Context) (jetstream.ObjectStore, error) {
	store, err := c.js.ObjectStore(ctx, subjects.BucketBlobs)
	if !errors.Is(err, jetstream.ErrBucketNotFound) {
		return store, err
	}
	store, err = c.js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{
		Bucket: subjects.BucketBlobs, Storage: jetstream.FileStorage, Replicas: int(c.replicas.Load()),
	})
	if errors.Is(err, jetstream.ErrBucketExists) {
		return c.js.ObjectStore(ctx, subjects.BucketBlobs)
	}
	return store, err
}
