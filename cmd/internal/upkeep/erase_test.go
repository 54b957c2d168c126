package upkeep

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnfold/turnfold/cmd/internal/stage"
)

// TestErase: after an erasure no file of the store has a byte of what was said in the
// turn, by user, model or tool; the feed answers 410; audits say erased and find nothing
// broken; the neighbour is whole; the id cannot be used again; and the same effect asked
// for by another turn is not made again.
func TestErase(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.start()
	o.turn("doomed")
	o.turn("kept")
	if found := holding(t, filepath.Join(o.p.Dir, "store"), o.secrets["doomed"]); len(found) < 4 {
		t.Fatalf("the secret is in %v alone; the test shows too little", found)
	}
	if _, body := o.call("GET", "/v1/turns?view=summary", ""); !strings.Contains(body, "doomed") { // now it is in mind
		t.Errorf("the list is %s", body)
	}
	out := o.must("erase", "doomed", "--by", "ann", "--reason", "request-17")
	if !strings.Contains(out, "local/doomed: erased") || !strings.Contains(out, "stays: call 1.0 of mail, succeeded, key ") {
		t.Errorf("erase says\n%s", out)
	}
	o.clean("doomed", "after erase")
	o.afterErase()
	if err := o.p.Stop(); err != nil {
		t.Fatal(err)
	}
	o.clean("doomed", "after a stop")
	if out, _, exit := o.verb("audit", "--all", "--settled"); exit != 0 || !strings.Contains(out, "local/doomed: erased") && !strings.Contains(out, "doomed: erased") {
		t.Errorf("audit of the idle store: exit %d\n%s", exit, out)
	}
	o.start()
	o.clean("doomed", "after a restart")
	o.afterErase()

	// Another turn asks for the same effect: it meets the key, and no result.
	o.secrets["again"] = o.secrets["doomed"]
	effects := o.mail.Effects()
	o.turn("again")
	if n := o.mail.Effects(); n != effects {
		t.Errorf("the erased effect was made again: %d, %d before", n, effects)
	}
	if verdict, err := o.p.Audit(t.Context(), "again"); err != nil || verdict != "" {
		t.Errorf("audit of the turn that met it: %q %v", verdict, err)
	}
	if out, _, exit := o.verb("audit", "--all"); exit != 0 {
		t.Errorf("audit: exit %d\n%s", exit, out)
	}
	// Sent again, the order changes nothing.
	if out := o.must("erase", "doomed"); !strings.Contains(out, "erased") {
		t.Errorf("erase again says\n%s", out)
	}
}

// afterErase looks at the erased turn "doomed" and its neighbour "kept".
func (o *office) afterErase() {
	o.t.Helper()
	for _, path := range []string{"/v1/turns/doomed", "/v1/turns/doomed/feed", "/v1/turns/doomed/events", "/v1/turns/doomed/effects"} {
		if status, body := o.call("GET", path, ""); status != 410 || !strings.Contains(body, "erased") {
			o.t.Errorf("GET %s: %d %s", path, status, body)
		}
	}
	if status, body := o.call("POST", "/v1/turns", `{"turn":"doomed","input":"again"}`); status != 410 {
		o.t.Errorf("the id is used again: %d %s", status, body)
	}
	if status, body := o.call("GET", "/v1/turns/doomed/audit", ""); status != 200 || !strings.Contains(body, `"status":"erased"`) {
		o.t.Errorf("audit: %d %s", status, body)
	}
	for _, list := range []string{"/v1/turns?status=all", "/v1/turns?view=summary"} {
		for until := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) { // processes hear of it in their own time
			_, body := o.call("GET", list, "")
			if !strings.Contains(body, "doomed") && strings.Contains(body, "kept") {
				break
			}
			if time.Now().After(until) {
				o.t.Fatalf("%s lists %s", list, body)
			}
		}
	}
	if verdict, err := o.p.Audit(o.t.Context(), "kept"); err != nil || verdict != "" {
		o.t.Errorf("audit of the neighbour: %q %v", verdict, err)
	}
	f := stage.NewFollower(o.p, "kept")
	if err := f.Resume(o.t.Context()); err != nil || !strings.Contains(f.Text(), o.secrets["kept"]) {
		o.t.Errorf("the neighbour shows %q, %v", f.Text(), err)
	}
	if out, _, exit := o.verb("audit", "--all"); exit != 0 || strings.Contains(out, "MISMATCH") || !strings.Contains(out, "1 erased") {
		o.t.Errorf("audit: exit %d\n%s", exit, out)
	}
}

// TestEraseRunningTurn: a turn that is erased while its tool runs is cancelled, ends as
// cancelled turns do, and then nothing is left of what the tool said; its effect is made
// once. Ordered over HTTP.
func TestEraseRunningTurn(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.start()
	reached, release := make(chan struct{}), make(chan struct{})
	o.mail.AfterEffect(func() { close(reached); <-release })
	o.secrets["busy"] = newSecret()
	posted := make(chan error, 1)
	follower := stage.NewFollower(o.p, "busy")
	go func() { posted <- follower.Post(t.Context(), "Write about "+o.secrets["busy"]) }()
	<-reached
	type answer struct {
		status int
		body   string
	}
	deleted := make(chan answer, 1)
	go func() {
		status, body := o.call("DELETE", "/v1/turns/busy", `{"by":"ann","reason":"request-18"}`)
		deleted <- answer{status, body}
	}()
	for until := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if _, body := o.call("GET", "/v1/turns/busy", ""); strings.Contains(body, `"status":"ending"`) {
			break
		}
		if time.Now().After(until) {
			t.Fatal("the turn is not cancelled")
		}
	}
	close(release)
	if err := <-posted; err != nil || !follower.Over && follower.Items[len(follower.Items)-1].Type != "completion" {
		t.Errorf("who followed the turn saw %+v, %v", follower.Items, err)
	}
	a := <-deleted
	for until := time.Now().Add(patience); a.status == 202 && time.Now().Before(until); {
		a.status, a.body = o.call("DELETE", "/v1/turns/busy", "") // the same order
	}
	e := decoded[struct {
		State, By string
		Calls     []struct{ Key, Outcome string }
	}](t, a.body)
	if a.status != 200 || e.State != "erased" || e.By != "ann" || len(e.Calls) != 1 || e.Calls[0].Outcome != "succeeded" {
		t.Errorf("DELETE: %d %s", a.status, a.body)
	}
	o.clean("busy", "after erase")
	if n := len(o.mail.Sent()); n != 1 {
		t.Errorf("the tool was called %d times", n)
	}
	if status, _ := o.call("DELETE", "/v1/turns/nobody", ""); status != 404 {
		t.Errorf("DELETE of no turn: %d", status)
	}
	o.must("audit", "--all")
}

// TestEraseTenant: an order that is given while nothing runs is kept and done at the next
// start; all turns of the tenant go, from the archive too, and what has left the log long
// ago is found there.
func TestEraseTenant(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.start()
	o.turn("first")
	o.turn("second")
	dir := filepath.Join(t.TempDir(), "archive")
	o.must("archive", "--all", dir)
	if err := o.p.Stop(); err != nil {
		t.Fatal(err)
	}
	if out, errs, exit := o.verb("erase", "--tenant", "local", "--archive", dir); exit != 4 || !strings.Contains(errs, "2 turns are ordered") || !strings.Contains(out, "2 turns erased") {
		t.Errorf("erase of an idle store: exit %d %s%s", exit, out, errs)
	}
	if found, err := filepath.Glob(filepath.Join(dir, "local", "*")); err != nil || len(found) > 0 {
		t.Errorf("the archive has %v, %v", found, err)
	}
	if out := o.must("audit", "verify", dir); !strings.Contains(out, "0 bundles") {
		t.Errorf("the archive holds %s", out)
	}
	o.start()
	out := o.must("erase", "first", "local/second", "--json")
	if strings.Count(out, `"state":"erased"`) != 2 {
		t.Errorf("erase says %s", out)
	}
	o.clean("first", "after the start")
	o.clean("second", "after the start")
	if _, errs, exit := o.verb("erase", "nobody"); exit != 1 || !strings.Contains(errs, "no such turn") {
		t.Errorf("erase of no turn: exit %d %s", exit, errs)
	}
	if _, errs, exit := o.verb("erase"); exit != 2 || !strings.Contains(errs, "name turns") {
		t.Errorf("erase of nothing: exit %d %s", exit, errs)
	}
}
