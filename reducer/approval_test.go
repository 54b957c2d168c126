package reducer_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

// asking opens a turn whose model asks for one call of a tool that needs approval.
func (w *world) asking(t subjects.Turn, waitMS, deadlineMS int64) {
	w.t.Helper()
	if err := turns.NewReader(w.conn, partitions).MarkOpen(context.Background(), t); err != nil {
		w.t.Fatal(err)
	}
	o := opened()
	o.Rules = event.Rules
	o.Policy.DeadlineMS = deadlineMS
	o.Tools = []event.Tool{{Name: "pay", Effect: "once", IdentityAll: true, Repeat: "never", TimeoutMS: 1000, Approval: "always", ApprovalTimeoutMS: waitMS}}
	at := event.At{Step: 1, Attempt: 1, Token: "a"}
	w.tell(t, o, &event.AttemptStarted{Step: 1, Attempt: 1, Token: "a", Provider: "main"},
		&event.CallDelta{At: at, Index: 0, ID: "c", Name: "pay", Args: `{"a":1}`})
	at.Ord = 1
	w.tell(t, &event.AttemptFinished{At: at, Finish: "tool_calls"})
}

func settled(items []feed.Output) *feed.ToolResult {
	for _, o := range items {
		if b, ok := o.Body.(*feed.ToolResult); ok {
			return b
		}
	}
	return nil
}

// The wait for a person is counted from when the log stored the call, so that it does
// not start anew with every owner; and the turn's deadline does not end it.
func TestApprovalOutlivesOwnersAndExpires(t *testing.T) {
	w := newWorld(t)
	id := turn("expires")
	began := time.Now()
	w.asking(id, 2500, 500)
	for i := range 3 {
		stop := w.reduce("host")
		if i == 0 {
			w.waitFor(id, "approval_request")
		}
		if i < 2 {
			time.Sleep(700 * time.Millisecond) // the owner has the turn in memory meanwhile
			stop()
			continue
		}
		r := settled(w.feed(id, "tool_result"))
		stop()
		if r.Outcome != "refused" || r.ErrorClass != "approval_expired" {
			t.Fatalf("result %+v", r)
		}
	}
	if took := time.Since(began); took < 2400*time.Millisecond || took > time.Minute {
		t.Errorf("expired after %s", took)
	}
	w.auditClean(id)
}

// Time that only a person took does not count against the deadline: what was left of it
// is left when the answer comes, and not more.
func TestDeadlineStandsStillForAPerson(t *testing.T) {
	w := newWorld(t)
	defer w.reduce("host")()
	id := turn("slow-person")
	w.asking(id, 60_000, 1500)
	w.waitFor(id, "approval_request")
	time.Sleep(2500 * time.Millisecond) // longer than the deadline
	w.tell(id, &event.CallApproved{Call: "1.0", Digest: fold.ArgsDigest(`{"a":1}`), By: "ann"})
	approved := time.Now()
	end := w.feed(id, "error")
	left := time.Since(approved)
	if b := end[len(end)-1].Body.(*feed.Error); b.Class != "deadline" || left < 500*time.Millisecond {
		t.Errorf("ended with %+v, %s after the approval", b, left)
	}
	if r := settled(end); r == nil || r.Outcome != "unknown" {
		t.Errorf("the call that nobody ran is %+v", r)
	}
	reader := turns.NewReader(w.conn, partitions)
	list := func() []subjects.Turn {
		out, err := reader.Unknown(context.Background(), subjects.LocalTenant, "")
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	w.eventuallyClosed(id)
	if out := list(); !slices.Contains(out, id) {
		t.Errorf("an ended turn with an unknown call is not listed: %v", out)
	}
	key, err := keyOfCall(reader, id)
	if err != nil {
		t.Fatal(err)
	}
	w.tell(id, &event.CallSettled{Call: "1.0", Key: key, Outcome: event.OutcomeFailed, By: "ann", Why: "asked them"})
	for range 200 {
		if len(list()) == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("a resolved call stays listed: %v", list())
}

func keyOfCall(r *turns.Reader, t subjects.Turn) (string, error) {
	s, err := r.Load(context.Background(), t, 0)
	if err != nil {
		return "", err
	}
	return s.Call("1.0").Key, nil
}
