package crash

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/turnfold/turnfold/cmd/internal/built"
	"github.com/turnfold/turnfold/cmd/internal/stage"
)

// binary is the turnfold that the tests kill.
var binary string

func TestMain(m *testing.M) { os.Exit(built.Main(m, &binary)) }

// shop is a turn with two keyed refunds and one mail that cannot be told apart, under
// a model that words everything anew at each request.
type shop struct {
	model   *stage.Model
	refunds *stage.Ledger
	mail    *stage.Ledger
	p       *stage.Product
}

const (
	orderOne, orderTwo = "ORD-1001", "ORD-1002"
	question           = "Refund " + orderOne + " and " + orderTwo + "."
)

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{refunds: stage.NewLedger(`{"refund":"ok"}`, 60*time.Millisecond), mail: stage.NewLedger(`{"sent":true}`, 30*time.Millisecond)}
	s.model = stage.NewModel(func(n int, r stage.Request, w *stage.Reply) {
		w.Pace = 8 * time.Millisecond
		if r.Answered() {
			w.Text(fmt.Sprintf("Both orders are refunded (try %d), have a good day (try %d). ", n, n))
			w.Finish()
			return
		}
		w.Text(fmt.Sprintf("Refunding two orders (try %d), one moment (try %d). ", n, n))
		w.Call(fmt.Sprintf("a%d", n), "refund", fmt.Sprintf(`{"order":%q,"note":"try %d"}`, orderOne, n))
		w.Call(fmt.Sprintf("b%d", n), "refund", fmt.Sprintf(`{"note":"try %d", "order":%q}`, n, orderTwo))
		w.Call(fmt.Sprintf("c%d", n), "mail", fmt.Sprintf(`{"to":"customer","text":"try %d"}`, n))
		w.Finish()
	})
	p, err := stage.NewProduct(binary, t.TempDir(), s.model.API(),
		map[string]any{"retry": map[string]any{"attempts_per_step": 400, "attempts_per_turn": 400, "backoff": map[string]any{"base": "20ms", "max": "50ms"}}},
		stage.Tool{Name: "refund", URL: s.refunds.URL(), Identity: []string{"order"}, Timeout: 10 * time.Second,
			Members: map[string]string{"order": "string", "note": "string"}},
		stage.Tool{Name: "mail", URL: s.mail.URL(), Effect: "once", Identity: []string{"to"}, Timeout: 10 * time.Second,
			Members: map[string]string{"to": "string", "text": "string"}})
	if err != nil {
		t.Fatal(err)
	}
	s.p = p
	t.Cleanup(func() {
		p.Kill()
		s.model.Close()
		s.refunds.Close()
		s.mail.Close()
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(p.Dir, "turnfold.log"))
			t.Logf("turnfold.log ends with:\n%s", log[max(0, len(log)-6000):])
		}
	})
	return s
}

func (s *shop) start(t *testing.T) {
	t.Helper()
	if err := s.p.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// finish follows a turn to its end.
func (s *shop) finish(t *testing.T, f *stage.Follower) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	var err error
	for !f.Over && ctx.Err() == nil {
		if len(f.Items) == 0 {
			err = f.Post(ctx, question) // posted again, it is the same turn
		} else {
			err = f.Resume(ctx)
		}
		if !f.Over {
			time.Sleep(20 * time.Millisecond)
		}
	}
	if !f.Over {
		t.Fatalf("the turn has not ended: %v; last items %+v", err, f.Items[max(0, len(f.Items)-4):])
	}
}

// checkTurn holds an ended turn against what its readers saw.
func (s *shop) checkTurn(t *testing.T, f *stage.Follower, turn string) {
	t.Helper()
	for _, fault := range f.Faults() {
		t.Errorf("%s: %s", turn, fault)
	}
	whole := stage.NewFollower(s.p, turn)
	if err := whole.Resume(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, fault := range whole.Faults() {
		t.Errorf("%s read from its start: %s", turn, fault)
	}
	if whole.Text() != f.Text() {
		t.Errorf("%s: the follower shows %q, the feed from its start %q", turn, f.Text(), whole.Text())
	}
	var first, second, third, fourth int
	if n, err := fmt.Sscanf(f.Text(), "Refunding two orders (try %d), one moment (try %d). Both orders are refunded (try %d), have a good day (try %d). ",
		&first, &second, &third, &fourth); n != 4 || first != second || third != fourth {
		t.Errorf("%s: spliced or cut text %q: %v", turn, f.Text(), err)
	}
	verdict, err := s.p.Audit(context.Background(), turn)
	if err != nil || verdict != "" {
		t.Errorf("%s: audit: %q %v", turn, verdict, err)
	}
}

// checkWorld counts what was done for so many turns, and returns how many effects were
// made twice.
func (s *shop) checkWorld(t *testing.T, turns int) (duplicates int) {
	t.Helper()
	if n := s.refunds.Effects(); n != 2*turns {
		t.Errorf("%d refunds were made under keys %v; %d were asked for", n, s.refunds.Keys(), 2*turns)
		duplicates += n - 2*turns
	}
	if sent := s.mail.Sent(); len(sent) > turns {
		t.Errorf("%d mails went out for %d turns: %v", len(sent), turns, sent)
		duplicates += len(sent) - turns
	}
	return duplicates
}

// check does both for a single turn.
func (s *shop) check(t *testing.T, f *stage.Follower, turn string) (duplicates int) {
	t.Helper()
	s.checkTurn(t, f, turn)
	return s.checkWorld(t, 1)
}
