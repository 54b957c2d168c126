package audit_test

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/turnfold/turnfold/reducer/audit"
	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/feed"
)

func source(t *testing.T, file string) audit.Source {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return audit.EventsIn(bytes.NewReader(raw))
}

// A replay says what was said: every recorded output, byte for byte.
func TestReplay(t *testing.T) {
	for _, file := range golden(t) {
		_, list := load(t, file)
		var want, got []string
		for _, m := range list {
			if strings.HasPrefix(m.stream, "TF_OUT") {
				want = append(want, string(m.Data))
			}
		}
		r := audit.Replay{Output: func(_ subjects.Turn, o feed.Output) error {
			data, err := feed.Encode(o)
			got = append(got, string(data))
			return err
		}}
		if err := r.Run(context.Background(), source(t, file)); err != nil {
			t.Fatal(err)
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s is replayed as\n%s\nwant\n%s", file, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

func TestReplayAsOf(t *testing.T) {
	for _, c := range []struct {
		asOf   uint64
		status fold.Status
	}{{1, fold.Running}, {12, fold.Running}, {0, fold.Completed}} {
		var got []fold.Status
		r := audit.Replay{AsOf: c.asOf, Turn: func(x *audit.Replayed) error { got = append(got, x.State.Status); return nil }}
		if err := r.Run(context.Background(), source(t, "testdata/golden/v1-demo-policies.ndjson")); err != nil || len(got) != 1 || got[0] != c.status {
			t.Errorf("as of %d: %v, %v; want %s", c.asOf, got, err, c.status)
		}
	}
}

func TestWhatIf(t *testing.T) {
	one, many, zero := 1, 99, 0
	for _, c := range []struct {
		name     string
		settings audit.Settings
		want     audit.Comparison
	}{
		{"as it was", audit.Settings{}, audit.Comparison{Turns: 1}},
		{"more of what was not used up", audit.Settings{AttemptsPerStep: &many}, audit.Comparison{Turns: 1}},
		{"no retry", audit.Settings{AttemptsPerStep: &one}, audit.Comparison{Turns: 1, Differ: 1, Stopped: 1}},
		{"no calls", audit.Settings{CallsPerTurn: &zero}, audit.Comparison{Turns: 1, Differ: 1, Stopped: 1}},
	} {
		got, err := audit.WhatIf(context.Background(), source(t, "testdata/golden/v1-demo-policies.ndjson"), c.settings, 0, nil)
		if err != nil || got.Turns != c.want.Turns || got.Differ != c.want.Differ || got.Stopped != c.want.Stopped {
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, err, c.want)
		}
	}
}

func TestCost(t *testing.T) {
	got, err := audit.Cost(context.Background(), source(t, "testdata/golden/v1-demo-policies.ndjson"), nil)
	if err != nil || len(got) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	if won, lost := got[0], got[1]; !won.Won || won.Attempts != 2 || won.Input != 80 || lost.Won || lost.Class != "connection" || lost.Uncounted != 1 {
		t.Errorf("%+v", got)
	}
}

// A bundle that is cut or changed is not replayed to its end as if it were whole.
func TestReplayRefuses(t *testing.T) {
	raw, err := os.ReadFile(golden(t)[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := (audit.Replay{}).Run(context.Background(), audit.EventsIn(bytes.NewReader(raw[:len(raw)/2]))); err == nil {
		t.Error("half a bundle is taken for whole")
	}
}
