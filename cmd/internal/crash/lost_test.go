package crash

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/turnfold/turnfold/cmd/internal/stage"
)

// TestLostJetStreamTail takes JetStream back to its state of before the effects and
// keeps the key store: the model is asked again, words its calls anew, and every one of
// them meets its stored outcome.
func TestLostJetStreamTail(t *testing.T) {
	s := newShop(t)
	s.start(t)
	f := stage.NewFollower(s.p, "tail")
	ctx, cancel := context.WithCancel(context.Background())
	posted := make(chan struct{})
	go func() { defer close(posted); _ = f.Post(ctx, question) }()
	waitFor(t, "the first model request", func() bool { return s.model.Requests() > 0 })
	s.p.Kill() // the state of ten seconds ago: the turn is open, no call is known
	cancel()
	<-posted
	nats := filepath.Join(s.p.Dir, "store", "nats")
	old := filepath.Join(t.TempDir(), "nats")
	copyTree(t, nats, old)
	s.start(t)
	s.finish(t, f)
	requests, refunds := s.model.Requests(), len(s.refunds.Sent())
	s.p.Kill()
	if err := os.RemoveAll(nats); err != nil {
		t.Fatal(err)
	}
	copyTree(t, old, nats)
	s.start(t)
	again := stage.NewFollower(s.p, "tail")
	s.finish(t, again)
	if s.model.Requests() <= requests {
		t.Fatal("the model was not asked again; the log was not taken back")
	}
	if d := s.check(t, again, "tail"); d != 0 {
		t.Errorf("%d duplicate effects", d)
	}
	if n := len(s.refunds.Sent()); n != refunds {
		t.Errorf("%d requests reached the refund tool after the loss; its outcomes were stored", n-refunds)
	}
}

// TestLostPebble loses the key store between an effect and its settlement and keeps
// JetStream: the effects log answers, or says unknown, but nothing happens twice.
func TestLostPebble(t *testing.T) {
	for _, moment := range []time.Duration{0, 5 * time.Millisecond, 70 * time.Millisecond} {
		t.Run(moment.String()+" after the effect", func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			s.start(t)
			killed := make(chan struct{})
			s.refunds.AfterEffect(func() {
				go func() {
					defer close(killed)
					time.Sleep(moment)
					s.p.Kill()
				}()
			})
			f := stage.NewFollower(s.p, "pebble")
			_ = f.Post(context.Background(), question) // ends with the process
			<-killed
			if err := os.RemoveAll(filepath.Join(s.p.Dir, "store", "keystore")); err != nil {
				t.Fatal(err)
			}
			s.start(t)
			s.finish(t, f)
			if d := s.check(t, f, "pebble"); d != 0 {
				t.Errorf("%d duplicate effects", d)
			}
		})
	}
}

func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for until := time.Now().Add(time.Minute); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}
