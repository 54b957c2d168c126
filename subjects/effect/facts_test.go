package effect

import (
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// The wire form is frozen: these facts are on logs.
func TestFactGolden(t *testing.T) {
	for _, c := range []struct {
		f    Fact
		want string
	}{
		{Fact{Kind: KindClaim, Token: "k1", Call: "T1/1.0", Epoch: 3, Generation: 1, Host: "h1", Input: 9},
			`{"v":1,"kind":"claim","token":"k1","call":"T1/1.0","epoch":3,"gen":1,"host":"h1","input":9}`},
		{Fact{Kind: KindRenew, Token: "k1", Call: "T1/1.0", Epoch: 4},
			`{"v":1,"kind":"renew","token":"k1","call":"T1/1.0","epoch":4}`},
		{Fact{Kind: KindReport, Token: "k1", Call: "T1/1.0", Outcome: Failed, ErrorClass: "http_400", Detail: "a<b&c", BodyDigest: "00"},
			`{"v":1,"kind":"report","token":"k1","call":"T1/1.0","outcome":"failed","class":"http_400","detail":"a<b&c","body":"00"}`},
		{Fact{Kind: KindErased, Token: "k1", Call: "T1/1.0"}, `{"v":1,"kind":"erased","token":"k1","call":"T1/1.0"}`},
		{Fact{Kind: KindNotRun, Call: "T1/1.0"}, `{"v":1,"kind":"not_run","call":"T1/1.0"}`},
	} {
		got := EncodeFact(c.f)
		if string(got) != c.want {
			t.Errorf("EncodeFact = %s, want %s", got, c.want)
		}
		if back, err := DecodeFact(got); err != nil || back != c.f {
			t.Errorf("DecodeFact(%s) = %+v, %v", got, back, err)
		}
	}
	if got := string(EncodeFact(Fact{Kind: KindNotRun, Call: "\xff"})); got != `{"v":1,"kind":"not_run","call":"\ufffd"}` {
		t.Errorf("invalid UTF-8: %s", got)
	}
}

func TestDecodeFactUnknown(t *testing.T) {
	const raw = `{"v":1, "kind":"lease2","token":{"x":1}}`
	f, err := DecodeFact([]byte(raw))
	if err != nil || f.Kind != "unknown:lease2" || f.Raw != raw {
		t.Fatalf("%+v, %v", f, err)
	}
	if string(EncodeFact(f)) != raw {
		t.Error("an unknown kind is not kept byte for byte")
	}
	if v := Join([]Fact{f}); len(v.Tokens)+len(v.NotRun) > 0 || v.Conflict {
		t.Errorf("an unknown kind counts: %+v", v)
	}
	if f, err := DecodeFact([]byte(`{"v":1,"kind":"not_run","call":"c","later":[1]}`)); err != nil || f.Call != "c" {
		t.Errorf("an unknown field: %+v, %v", f, err)
	}
	if _, err := DecodeFact([]byte(`{"v":2,"kind":"claim","token":"t","call":"c"}`)); !errors.Is(err, ErrFactVersion) {
		t.Errorf("a newer version: %v", err)
	}
	for _, bad := range []string{``, `[]`, `{}`, `{"v":1}`, `{"v":0,"kind":"claim"}`, `{"kind":"claim","token":"t","call":"c"}`,
		`{"v":1,"kind":"claim","call":"c"}`, `{"v":1,"kind":"report","token":"t","call":"c"}`, `{"v":1,"kind":"not_run"}`, `{"v":1,"kind":"claim","token":7,"call":"c"}`} {
		if f, err := DecodeFact([]byte(bad)); err == nil {
			t.Errorf("DecodeFact(%s) = %+v", bad, f)
		}
	}
}

func drawFact(t *rapid.T) Fact {
	pick := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }
	f := Fact{
		Kind:       FactKind(pick("kind", "claim", "claim", "renew", "report", "report", "report", "not_run", "erased", "unknown:x")),
		Token:      pick("token", "k1", "k2", "k3"),
		Call:       pick("call", "c1", "c2"),
		Epoch:      rapid.Uint64Range(0, 2).Draw(t, "epoch"),
		Generation: rapid.IntRange(0, 2).Draw(t, "generation"),
		Host:       pick("host", "h1", "h2"),
	}
	if f.Kind == KindReport {
		f.Outcome = Outcome(pick("outcome", "succeeded", "failed", "unknown", "unknown", "later"))
		f.ErrorClass = pick("class", "", "timeout", Interrupted)
		f.BodyDigest = pick("digest", "", "d1", "d2")
	}
	return f
}

func TestFactRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFact(t)
		if f.Kind == "unknown:x" {
			t.Skip("made by decoding only")
		}
		if back, err := DecodeFact(EncodeFact(f)); err != nil || back != f {
			t.Fatalf("%+v came back as %+v, %v", f, back, err)
		}
	})
}

func FuzzDecodeFact(f *testing.F) {
	f.Add([]byte(`{"v":1,"kind":"claim","token":"t","call":"c"}`))
	f.Add([]byte(`{"v":1,"kind":"x"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		fact, err := DecodeFact(b)
		if err != nil {
			return
		}
		again, err := DecodeFact(EncodeFact(fact))
		if err != nil || again != fact {
			t.Fatalf("%+v came back as %+v, %v", fact, again, err)
		}
	})
}
