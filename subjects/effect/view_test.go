package effect

import (
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The laws of a join: order and repeats are nothing, and so is the way the facts
// were gathered: by half a log here and half a log there.
func TestJoinLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		facts := rapid.SliceOfN(rapid.Custom(drawFact), 0, 10).Draw(t, "facts")
		want := Join(facts)
		shuffled := rapid.Permutation(facts).Draw(t, "order")
		if got := Join(shuffled); !reflect.DeepEqual(got, want) {
			t.Fatalf("another order\n%+v\n%+v", got, want)
		}
		cut := rapid.IntRange(0, len(facts)).Draw(t, "cut")
		more := slices.Concat(shuffled[cut:], facts, shuffled[:cut])
		if got := Join(more); !reflect.DeepEqual(got, want) {
			t.Fatalf("repeats and parts\n%+v\n%+v", got, want)
		}
		for _, class := range []Class{Read, Keyed, Once} {
			for _, call := range []string{"c1", "c2", "c3"} {
				if got, d := Join(more).Decide(class, call, Limits{}), want.Decide(class, call, Limits{}); !reflect.DeepEqual(got, d) {
					t.Fatalf("two decisions of one view: %+v, %+v", got, d)
				}
			}
		}
	})
}

// More facts never unsay what is known.
func TestJoinGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.SliceOfN(rapid.Custom(drawFact), 0, 6)
		some, more := draw.Draw(t, "some"), draw.Draw(t, "more")
		before, after := Join(some), Join(slices.Concat(some, more))
		for _, a := range before.Tokens {
			b, ok := after.Token(a.ID)
			if !ok || b.Report.Outcome.rank() < a.Report.Outcome.rank() || b.Generation < a.Generation || a.Claimed && !b.Claimed {
				t.Fatalf("%+v became %+v", a, b)
			}
		}
		if _, ok := before.Succeeded(); ok {
			if d := after.Decide(Once, "c1", Limits{}); d.Kind != Replay || d.Outcome != Succeeded {
				t.Fatalf("a success was followed by %+v", d)
			}
		}
		if before.Conflict && !after.Conflict {
			t.Fatal("a conflict went away")
		}
	})
}

func TestConflict(t *testing.T) {
	report := func(o Outcome, digest string) Fact {
		return Fact{Kind: KindReport, Token: "k1", Call: "c1", Outcome: o, BodyDigest: digest}
	}
	for _, c := range []struct {
		name  string
		facts []Fact
		want  bool
	}{
		{"unknown resolved", []Fact{report(Unknown, ""), report(Succeeded, "d1")}, false},
		{"said twice", []Fact{report(Succeeded, "d1"), report(Succeeded, "d1")}, false},
		{"verified, then the answer came", []Fact{report(Succeeded, ""), report(Succeeded, "d1")}, false},
		{"success and failure", []Fact{report(Failed, ""), report(Unknown, ""), report(Succeeded, "")}, true},
		{"two bodies", []Fact{report(Succeeded, "d2"), report(Succeeded, ""), report(Succeeded, "d1")}, true},
		{"a token of two calls", []Fact{report(Failed, ""), {Kind: KindClaim, Token: "k1", Call: "c2"}}, true},
	} {
		v := Join(c.facts)
		if v.Conflict != c.want {
			t.Errorf("%s: conflict %v", c.name, v.Conflict)
		}
		if c.name == "success and failure" && v.Tokens[0].Report.Outcome != Succeeded {
			t.Errorf("%s: %s", c.name, v.Tokens[0].Report.Outcome)
		}
	}
}

func TestSucceeded(t *testing.T) {
	report := func(token, digest string) Fact {
		return Fact{Kind: KindReport, Token: token, Call: "c1", Outcome: Succeeded, BodyDigest: digest}
	}
	if _, ok := Join(nil).Succeeded(); ok {
		t.Error("nothing succeeded")
	}
	if s, _ := Join([]Fact{report("k3", ""), report("k2", "")}).Succeeded(); s.ID != "k2" {
		t.Errorf("first: %s", s.ID)
	}
	if s, _ := Join([]Fact{report("k1", ""), report("k3", "d"), report("k2", "d")}).Succeeded(); s.ID != "k2" {
		t.Errorf("first with a body: %s", s.ID)
	}
}

func TestGeneration(t *testing.T) {
	claim := func(token string, n int) Fact {
		return Fact{Kind: KindClaim, Token: token, Call: "c1", Generation: n}
	}
	report := func(token string, o Outcome) Fact {
		return Fact{Kind: KindReport, Token: token, Call: "c1", Outcome: o}
	}
	for _, c := range []struct {
		name  string
		facts []Fact
		want  int
	}{
		{"none", nil, 0},
		{"open", []Fact{claim("k1", 0)}, 0},
		{"failed", []Fact{claim("k1", 0), report("k1", Failed)}, 1},
		{"failed twice", []Fact{claim("k1", 0), report("k1", Failed), claim("k2", 1), report("k2", Failed)}, 2},
		{"unknown after a failure", []Fact{claim("k1", 0), report("k1", Failed), claim("k2", 1), report("k2", Unknown)}, 1},
		{"failure reported late", []Fact{claim("k1", 0), report("k1", Unknown), claim("k2", 0), report("k2", Failed)}, 0},
		{"claim lost, report kept", []Fact{report("k1", Failed)}, 1},
	} {
		if got := Join(c.facts).Generation(); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
