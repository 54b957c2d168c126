package keystore

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/turnfold/turnfold/subjects/effect"
)

// A doubt survives a restart, and a power cut that takes it takes the end of its report
// as well, so that it comes back.
func TestDoubts(t *testing.T) {
	mem := vfs.NewCrashableMem()
	s := open(t, "d", mem)
	d := Doubt{Key: keyOf(1), Token: tokenOf(1), Call: "local/t/1.0", Command: []byte(`{"v":1}`), Since: at, Asked: 0, Next: at.Add(time.Second)}
	must(t, s.Intent(ctx, Intent{Key: d.Key, Token: d.Token, Call: d.Call, Command: d.Command, At: at}))
	must(t, s.Report(ctx, Report{Key: d.Key, Token: d.Token, Outcome: effect.Unknown, ErrorClass: "timeout", At: at}))
	must(t, s.KeepDoubt(ctx, d))
	must(t, s.MarkSettled(ctx, []Settled{{d.Key, d.Token, effect.Unknown}}, nil))
	other := Doubt{Key: keyOf(1), Token: tokenOf(1), Call: "local/t/2.0", Since: at, Next: at}
	must(t, s.KeepDoubt(ctx, other))
	d.Asked, d.Next = 3, at.Add(8*time.Second)
	must(t, s.KeepDoubt(ctx, d))
	cut := open(t, "d", mem.CrashClone(vfs.CrashCloneCfg{}))
	if left, err := cut.Doubts(); err != nil || len(left) > 0 {
		t.Errorf("unsynced doubts after a power cut: %v, %v", left, err)
	}
	if out, err := cut.Outbox(); err != nil || len(out) != 1 {
		t.Errorf("the report behind a lost doubt is not in the outbox: %v, %v", out, err)
	}
	must(t, cut.Close())
	must(t, s.Close())
	s = open(t, "d", mem)
	got, err := s.Doubts()
	must(t, err)
	other.Command = []byte{}
	if want := []Doubt{d, other}; !reflect.DeepEqual(normal(got), normal(want)) {
		t.Errorf("doubts %+v, want %+v", got, want)
	}
	must(t, s.EndDoubt(ctx, d.Key, d.Call))
	if got, err := s.Doubts(); err != nil || len(got) != 1 || got[0].Call != other.Call {
		t.Errorf("after one has ended: %+v, %v", got, err)
	}
	if err := s.KeepDoubt(ctx, Doubt{Key: "k"}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a doubt of nothing: %v", err)
	}
	must(t, s.Close())
}

func normal(list []Doubt) []Doubt {
	for i := range list {
		if len(list[i].Command) == 0 {
			list[i].Command = nil
		}
		list[i].Since, list[i].Next = list[i].Since.UTC(), list[i].Next.UTC()
	}
	return list
}
