package subjects

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Where a turn lies must be found again in ten years. The numbers were computed by
// another program from the definition of FNV-1a-32; they never change.
func TestPartition(t *testing.T) {
	for _, c := range []struct {
		turn                  Turn
		of1, of4, of16, of256 int
	}{
		{Turn{"local", "t-1"}, 0, 1, 1, 1},
		{Turn{"acme", "0197f3e2-7c6e-7000-8000-000000000001"}, 0, 2, 2, 2},
		{Turn{"acme", "A_b-9"}, 0, 0, 12, 92},
		{Turn{"a", "b"}, 0, 1, 1, 193},
		{Turn{"b", "a"}, 0, 1, 13, 77},
		{Turn{strings.Repeat("x", 64), strings.Repeat("y", 64)}, 0, 2, 14, 30},
	} {
		got := [4]int{c.turn.Partition(1), c.turn.Partition(4), c.turn.Partition(16), c.turn.Partition(256)}
		if want := [4]int{c.of1, c.of4, c.of16, c.of256}; got != want {
			t.Errorf("%s lies in %v, must lie in %v", c.turn, got, want)
		}
	}
	if got := KeyPartition("tfk1_"+strings.Repeat("a", 52), 16); got != 4 {
		t.Errorf("the key lies in %d", got)
	}
	// The sum's upper half must not make a remainder negative on any platform.
	if p := (Turn{"a", "b"}).Partition(3); p < 0 || p > 2 {
		t.Errorf("partition %d of 3", p)
	}
}

func TestCheckID(t *testing.T) {
	for _, id := range []string{"a", "A-z_09", strings.Repeat("x", 64), "0197f3e2-7c6e-7000-8000-000000000001"} {
		if err := CheckID("turn", id); err != nil {
			t.Errorf("%q is refused: %v", id, err)
		}
	}
	for id, says := range map[string]string{
		"": "turn is empty", strings.Repeat("x", 65): "turn has 65 bytes", "a.b": `turn has '.' at byte 1`,
		"a*": "at byte 1", ">": "at byte 0", "a b": "at byte 1", "a/b": "at byte 1", "é": "at byte 0", "a\x00": "at byte 1",
	} {
		err := CheckID("turn", id)
		if !errors.Is(err, ErrBadID) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", id, err, says)
		}
	}
}

func TestSubjects(t *testing.T) {
	turn := Turn{"acme", "t-1"}
	for got, want := range map[string]string{
		turn.String():           "acme/t-1",
		Events(3, turn):         "tf.ev.3.acme.t-1",
		Out(3, turn, LaneFeed):  "tf.out.3.acme.t-1.feed",
		Out(3, turn, LaneStep):  "tf.out.3.acme.t-1.step",
		Out(3, turn, LaneCall):  "tf.out.3.acme.t-1.call",
		OutTurn(3, turn):        "tf.out.3.acme.t-1.*",
		OutLane(3, LaneFeed):    "tf.out.3.*.*.feed",
		OutPosition(3):          "tf.out.3.position",
		Effect(3, "tfk1_x"):     "tf.fx.3.tfk1_x",
		EffectBody(3, "tfk1_x"): "tf.fx.3.tfk1_x.body",
		EventsStream(12):        "TF_EV_12",
		OutputsStream(12):       "TF_OUT_12",
		EffectsStream(12):       "TF_FX_12",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, s := range []string{"", "tf.ev.0.acme", "tf.ev.0.acme.t.x", "tf.out.0.acme.t", "xx.ev.0.acme.t", "tf.ev.x.acme.t",
		"tf.ev.-1.acme.t", "tf.ev.0..t", "tf.ev.0.acme.", "tf.ev.0.a*.t", "tf.ev..acme.t"} {
		if p, turn, err := ParseEvents(s); !errors.Is(err, ErrBadSubject) || turn != (Turn{}) {
			t.Errorf("%q is read as %d %v, %v", s, p, turn, err)
		}
	}
	for _, s := range []string{"", "tf.out.0.position", "tf.out.0.acme.t", "tf.out.0.acme.t.feed.x", "tf.ev.0.acme.t.feed",
		"tf.out.0.acme.t.body", "tf.out.0.acme.t.*", "tf.out.x.acme.t.feed", "tf.out.0.a b.t.feed"} {
		if p, turn, lane, err := ParseOut(s); !errors.Is(err, ErrBadSubject) {
			t.Errorf("%q is read as %d %v %v", s, p, turn, lane)
		}
	}
	if _, _, err := ParseEvents("tf.ev.0.a*.t"); !errors.Is(err, ErrBadID) || !strings.Contains(err.Error(), "tenant") {
		t.Errorf("the fault is not named: %v", err)
	}
}

// What is written is read back, and no two turns share a subject.
func TestParseReadsWhatIsWritten(t *testing.T) {
	id := rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`)
	rapid.Check(t, func(t *rapid.T) {
		turn := Turn{id.Draw(t, "tenant"), id.Draw(t, "turn")}
		n := rapid.IntRange(1, 256).Draw(t, "partitions")
		p := turn.Partition(n)
		if p < 0 || p >= n {
			t.Fatalf("partition %d of %d", p, n)
		}
		if q, back, err := ParseEvents(Events(p, turn)); err != nil || q != p || back != turn {
			t.Fatalf("%d %v is read back as %d %v, %v", p, turn, q, back, err)
		}
		for _, lane := range []Lane{LaneFeed, LaneStep, LaneCall} {
			if q, back, l, err := ParseOut(Out(p, turn, lane)); err != nil || q != p || back != turn || l != lane {
				t.Fatalf("%d %v %s is read back as %d %v %s, %v", p, turn, lane, q, back, l, err)
			}
		}
		other := Turn{id.Draw(t, "other tenant"), id.Draw(t, "other turn")}
		if other != turn && Events(0, other) == Events(0, turn) {
			t.Fatalf("%v and %v share a subject", turn, other)
		}
	})
}
