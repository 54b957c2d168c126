package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/embed"
	"github.com/turnfold/turnfold/subjects/jet"
)

func statusOf(err error) int {
	var f fault
	if errors.As(err, &f) {
		return f.status
	}
	return 0
}

// TestAdmission: a tenant's storm stops at its limit and nobody else's; a log that is
// full or an owner that is late is tried by one turn a second; what was missed does not
// keep a partition closed.
func TestAdmission(t *testing.T) {
	turn := func(tenant string, n int) subjects.Turn { return subjects.Turn{Tenant: tenant, ID: fmt.Sprint(n)} }
	a := newAdmission(1, 3, 50*time.Millisecond)
	for n := range 3 {
		if err := a.admit(turn("storm", n)); err != nil {
			t.Fatal(err)
		}
		a.note(turn("storm", n), true) // the index tells of it, once more
	}
	if got := statusOf(a.admit(turn("storm", 3))); got != http.StatusTooManyRequests {
		t.Errorf("over the limit: %d", got)
	}
	if err := a.admit(turn("calm", 0)); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	a.note(turn("storm", 1), false)
	if err := a.admit(turn("storm", 4)); err != nil {
		t.Errorf("under the limit again: %v", err)
	}

	time.Sleep(60 * time.Millisecond) // nobody has begun
	if err := a.admit(turn("calm", 1)); err != nil {
		t.Errorf("the probe: %v", err)
	}
	if got := statusOf(a.admit(turn("calm", 2))); got != http.StatusServiceUnavailable {
		t.Errorf("owner is late: %d", got)
	}
	a.began(turn("calm", 1)) // so the others have, too
	if err := a.admit(turn("calm", 2)); err != nil {
		t.Errorf("owner is back: %v", err)
	}

	a.refused(turn("calm", 2), fmt.Errorf("publish: %w", jet.ErrFull))
	if got := statusOf(a.admit(turn("other", 0))); got != http.StatusServiceUnavailable {
		t.Errorf("log is full: %d", got)
	}
	a.full = time.Now() // a second later
	if err := a.admit(turn("other", 0)); err != nil {
		t.Errorf("log may have room: %v", err)
	}
}

// postAsync posts a turn with this input and gives the answer's status.
func (w *world) postAsync(id, input string) (status int, retryAfter string) {
	w.t.Helper()
	req, err := http.NewRequest(http.MethodPost, w.base+"/v1/turns", strings.NewReader(`{"turn":"`+id+`","input":"`+input+`"}`))
	must(w.t, err)
	req.Header.Set("Prefer", "respond-async")
	res, err := w.client.Do(req)
	must(w.t, err)
	must(w.t, res.Body.Close())
	return res.StatusCode, res.Header.Get("Retry-After")
}

// TestLateOwnerOverHTTP: while a partition's owner says that its fold is too late, new
// turns are refused, those that were taken are kept, and one a second is let in; once it
// has caught up, all are.
func TestLateOwnerOverHTTP(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.AcceptWithin = time.Second })
	told := func(ms int) {
		for p := range testPartitions {
			must(t, w.conn.Broadcast(subjects.LagSubject(p), fmt.Appendf(nil, `{"v":1,"lag_ms":%d}`, ms)))
		}
	}
	var taken []string
	var status int
	var retryAfter string
	post := func(i int) {
		id := fmt.Sprint("late-", i)
		if status, retryAfter = w.postAsync(id, "hi"); status == http.StatusAccepted {
			taken = append(taken, id)
		}
	}
	limit := time.Now().Add(time.Minute)
	for i := 0; status != http.StatusServiceUnavailable; i++ {
		told(900) // is not too late
		told(2000)
		if post(i); time.Now().After(limit) {
			t.Fatalf("%d turns were let in, none refused", i)
		}
	}
	if retryAfter == "" {
		t.Error("refused without Retry-After")
	}
	for i := 1000; status != http.StatusAccepted; i++ {
		told(0)
		if post(i); time.Now().After(limit) {
			t.Fatal("the owner has caught up, and turns are refused")
		}
	}
	w.allKept(taken)
}

// allKept checks that each of these turns is on the log and was begun.
func (w *world) allKept(taken []string) {
	w.t.Helper()
	if len(taken) == 0 {
		w.t.Error("no turn was taken")
	}
	for _, id := range taken {
		p := local(id).Partition(testPartitions)
		m, ok, err := w.conn.LastOf(w.t.Context(), subjects.EventsStream(p), subjects.Events(p, local(id)))
		if err != nil || !ok || len(m.Data) == 0 {
			w.t.Errorf("turn %s was taken, and is not there: %v", id, err)
		}
	}
}

// TestFullLogOverHTTP fills the log's disk with turns: the next one is refused with a
// word when to come again, and every one that was taken is there.
func TestFullLogOverHTTP(t *testing.T) {
	w := newWorldOn(t, embed.Config{MaxStore: 8 << 20}, nil)
	input := strings.Repeat("x", 200<<10)
	var taken []string
	for i := range 200 {
		id := fmt.Sprint("full-", i)
		switch status, retryAfter := w.postAsync(id, input); {
		case status == http.StatusAccepted:
			taken = append(taken, id)
			continue
		case status != http.StatusServiceUnavailable || retryAfter == "":
			t.Fatalf("turn %d: %d, Retry-After %q", i, status, retryAfter)
		}
		w.allKept(taken)
		return
	}
	t.Fatal("the log is never full")
}

// TestTenantLimitOverHTTP opens turns that do not end, up to the limit.
func TestTenantLimitOverHTTP(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.TurnsPerTenant = 2 })
	post := func(id string) *http.Response {
		req, err := http.NewRequest(http.MethodPost, w.base+"/v1/turns", strings.NewReader(`{"turn":"`+id+`","input":"hi"}`))
		must(t, err)
		req.Header.Set("Prefer", "respond-async")
		res, err := w.client.Do(req)
		must(t, err)
		must(t, res.Body.Close())
		return res
	}
	for _, id := range []string{"one", "two"} {
		if res := post(id); res.StatusCode != http.StatusAccepted {
			t.Fatalf("%s: %s", id, res.Status)
		}
	}
	res := post("three")
	if res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") == "" {
		t.Errorf("over the limit: %s, Retry-After %q", res.Status, res.Header.Get("Retry-After"))
	}
	if res := post("one"); res.StatusCode != http.StatusAccepted {
		t.Errorf("a turn that is there, posted again: %s", res.Status)
	}
	must(t, w.turns.MarkDone(t.Context(), subjects.Turn{Tenant: subjects.LocalTenant, ID: "one"}))
	for until := time.Now().Add(time.Minute); post("three").StatusCode != http.StatusAccepted; {
		if time.Now().After(until) {
			t.Fatal("one turn has ended, and another is not let in")
		}
	}
}
