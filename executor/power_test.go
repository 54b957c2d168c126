package executor

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

// loss is what goes at the same moment as the process.
type loss struct {
	name   string
	tail   bool // the end of the effects log
	disk   bool // the key store as a whole, not only what it had not synced
	repeat bool // what guarantees.md says of it: the call may run again
}

var losses = []loss{
	{name: "power of the host"},
	{name: "tail of the effects log", tail: true},
	{name: "key store", disk: true},
	{name: "key store and tail at once", tail: true, disk: true, repeat: true},
}

// TestPowerLoss cuts the power of a host, in a run and after it. Its key store keeps
// exactly what was synced. With it goes the end of the effects log, or the whole key
// store, or both; only then does docs/guarantees.md allow a repeat.
func TestPowerLoss(t *testing.T) {
	for _, l := range losses {
		for _, class := range []string{"read", "keyed", "once"} {
			if raceEnabled && class != "once" {
				continue // the classes differ in what is decided, not in who runs beside whom
			}
			for _, moment := range []string{"sent", "answered", "settled"} {
				t.Run(fmt.Sprintf("%s/%s/%s", l.name, class, moment), func(t *testing.T) {
					t.Parallel()
					newCut(t, class, moment).run(t, l)
				})
			}
		}
	}
}

// powerCut is one host, one call before the cut, and one in it.
type powerCut struct {
	w             *world
	h             *host
	class, moment string
	before        feed.Output
	tail          string // the effect streams as they were after the first call
}

func newCut(t *testing.T, class, moment string) *powerCut {
	w := newWorld(t)
	c := &powerCut{w: w, h: w.host("a"), class: class, moment: moment, tail: filepath.Join(t.TempDir(), "tail")}
	c.h.fs = vfs.NewCrashableMem()
	c.h.start()
	c.before = w.call("before", class, order)[0]
	w.command(c.before)
	want(t, w.settled("before", "1.0"), event.OutcomeSucceeded, "", false)
	eventually(t, "the first call is done with", func() bool { n, err := c.h.x.outboxSize(); return err == nil && n == 0 })
	w.server.Shutdown()
	for _, d := range c.streams(t) {
		check(t, os.CopyFS(filepath.Join(c.tail, filepath.Base(d)), os.DirFS(d)))
	}
	w.serve()
	return c
}

func (c *powerCut) streams(t *testing.T) []string {
	dirs, err := filepath.Glob(filepath.Join(c.w.config.StoreDir, "jetstream", "*", "streams", "TF_FX_*"))
	check(t, err)
	if len(dirs) != testPartitions {
		t.Fatalf("found effect streams %v", dirs)
	}
	return dirs
}

func (c *powerCut) run(t *testing.T, l loss) {
	w := c.w
	reached := c.aim(t)
	out := w.call("t", c.class, order)[0]
	key := keyOf(out)
	w.command(out)
	<-reached
	if c.moment == "settled" {
		w.settled("t", "1.0")
	}
	c.h.cutPower()
	sent := w.target.count(key)
	if l.disk {
		c.h.fs = vfs.NewCrashableMem()
	}
	if l.tail {
		c.loseTail(t)
	}
	c.h.start()
	w.command(out) // the fold asks again for what no event has answered
	first := w.settled("t", "1.0")
	w.command(again(out, "2.0"), again(c.before, "2.0"))
	second := w.settled("t", "2.0")
	want(t, w.settled("before", "2.0"), event.OutcomeSucceeded, "", true)
	c.judge(t, l, sent, w.target.count(key), first, second)
	if n := w.target.count(keyOf(c.before)); n != 1 {
		t.Errorf("the first call ran %d times", n)
	}
}

// aim makes the target behave for the moment, and says when it is reached.
func (c *powerCut) aim(t *testing.T) chan struct{} {
	if c.moment == "sent" {
		return c.w.target.stuckOnce(t)
	}
	reached := make(chan struct{}, 16)
	c.w.target.behave(func(rw http.ResponseWriter, _ *http.Request, run int) {
		fmt.Fprintf(rw, "run %d", run)
		go func() { // the answer leaves with the handler
			time.Sleep(time.Millisecond)
			reached <- struct{}{}
		}()
	})
	return reached
}

// loseTail takes the effect streams back to what they were after the first call.
func (c *powerCut) loseTail(t *testing.T) {
	c.w.server.Shutdown()
	for _, d := range c.streams(t) {
		check(t, os.RemoveAll(d))
		check(t, os.CopyFS(d, os.DirFS(filepath.Join(c.tail, filepath.Base(d)))))
	}
	c.w.serve()
}

// judge holds what was told against what is promised.
func (c *powerCut) judge(t *testing.T, l loss, sent, total int, first, second *event.CallSettled) {
	t.Helper()
	most := sent
	switch {
	case l.repeat: // "a call that the model asks for again runs again"
		most = sent + 1
	case c.class != "once" && c.moment != "settled": // the same key, and the target collapses it
		most = sent + 1
	}
	if total > most {
		t.Errorf("the key was sent %d times, %d of them before the cut; at most %d are promised", total, sent, most)
	}
	for _, b := range []*event.CallSettled{first, second} {
		switch {
		case b.Outcome == event.OutcomeUnknown && c.class == "once" && !l.repeat && c.moment != "settled":
		case b.Outcome == event.OutcomeSucceeded:
		default:
			t.Errorf("told %+v; the key was sent %d times", *b, total)
		}
	}
	if first.Outcome == event.OutcomeSucceeded && (second.Outcome != event.OutcomeSucceeded || !second.Replayed) && !l.repeat {
		t.Errorf("told %+v, and then %+v", *first, *second)
	}
}
