package jet

import (
	"errors"
	"testing"

	"github.com/rs/zerolog"

	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/embed"
)

// TestFullLogSaysSo: a log without room says so, keeps what it has, and a writer that
// retries stores everything once there is room again.
func TestFullLogSaysSo(t *testing.T) {
	h := &host{t: t, cfg: embed.Config{StoreDir: t.TempDir(), MaxStore: 2 << 20, Log: zerolog.Nop()}}
	h.start()
	h.cfg.Port = h.srv.Port()
	t.Cleanup(func() { h.srv.Shutdown() })
	c := h.connect()
	ctx := testContext(t)
	if err := c.Ensure(ctx, subjects.Layout{Partitions: 1, Replicas: 1}); err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 256<<10)
	stored := uint64(0)
	for {
		seq, err := c.Publish(ctx, evTurn, nil, data)
		if errors.Is(err, ErrFull) && errors.Is(err, ErrUnclear) {
			break
		}
		if err != nil || seq > 16 {
			t.Fatalf("message %d: %v, want ErrFull before long", seq, err)
		}
		stored = seq
	}
	w := c.NewOrderedWriter(evStream)
	for range 3 {
		if err := w.Append(ctx, evTurn, data); err != nil {
			t.Fatal(err)
		}
	}
	if state := must(c.State(ctx, evStream))(t); state.LastSeq != stored {
		t.Errorf("the full log ends at %d, not at %d", state.LastSeq, stored)
	}
	stream, err := c.js.Stream(ctx, evStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(ctx); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(ctx); err != nil {
		t.Fatalf("there is room again: %v", err)
	}
	if state := must(c.State(ctx, evStream))(t); state.LastSeq != stored+3 {
		t.Errorf("the log ends at %d, not at %d", state.LastSeq, stored+3)
	}
}
