package streamer

import (
	"testing"
	"time"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/streamer/provider/providertest"
	"github.com/turnfold/turnfold/subjects/event"
)

// The withdrawal was missed: its command is held back. A reconnect finds out.
func TestMissedWithdrawal(t *testing.T) {
	w := newWorld(t)
	p := providertest.Start(t, answer(providertest.Hang, says("Wait")))
	s := w.streamer(p.URL, nil)
	w.run(s)
	turn := w.turn("missed", nil)
	other := w.turn("other", nil)
	w.untilKind("text.delta", 2)
	w.mu.Lock()
	w.hold = true
	w.mu.Unlock()
	w.publish(turn, &event.TurnCancelled{})
	w.untilKind("turn.cancelled", 1)
	select {
	case <-p.ClientClosed:
		t.Fatal("the socket closes without a word")
	case <-time.After(100 * time.Millisecond):
	}
	w.srv.Shutdown()
	w.start()
	select {
	case <-p.ClientClosed:
	case <-time.After(testWait):
		t.Fatal("the socket stays open")
	}
	select {
	case <-p.ClientClosed:
		t.Error("another attempt is stopped, too")
	case <-time.After(300 * time.Millisecond):
	}
	if st := w.state(other); st.Over() || st.Steps[0].Attempts[0].Outcome != "" {
		t.Errorf("the other turn is %s", st.Status)
	}
}

func TestClosedByFold(t *testing.T) {
	s := fold.State{Steps: []*fold.Step{{N: 1, Attempts: []*fold.Attempt{{N: 1, Outcome: fold.AttemptLost}, {N: 2, Outcome: fold.AttemptFinished}}},
		{N: 2, Attempts: []*fold.Attempt{{N: 1, Outcome: fold.AttemptFailed}, {N: 2, Outcome: fold.AttemptCancelled}, {N: 3}}}}}
	for at, want := range map[place]bool{{step: 1, attempt: 1}: true, {step: 1, attempt: 2}: false, {step: 2, attempt: 1}: false,
		{step: 2, attempt: 2}: true, {step: 2, attempt: 3}: false, {step: 2, attempt: 4}: false, {step: 3, attempt: 1}: false} {
		if got := closedByFold(&s, at); got != want {
			t.Errorf("%d.%d: %v", at.step, at.attempt, got)
		}
	}
}
