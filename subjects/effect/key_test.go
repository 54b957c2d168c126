package effect

import (
	"errors"
	"regexp"
	"strings"
	"testing"
)

// One call in every spelling (a1 to a5) has one key; every other meaning (b1 to
// b7) has its own; -0 is 0; a repeated member has none.
func TestHoldBikeKeys(t *testing.T) {
	key := func(args string, id Identity) string {
		identity, err := IdentityOf(args, id)
		if err != nil {
			t.Fatalf("%s: %v", args, err)
		}
		return Meaning{Tenant: "local", Scope: "T1", Tool: "hold_bike", Identity: identity}.Key()
	}
	same := []string{
		`{"bike":"B-7","place":"café","hours":100}`,
		"{ \"hours\" : 100 , \"place\":\"café\",\n \"bike\":\"B-7\" }",
		`{"bike":"B-7","place":"caf\u00e9","hours":1e2}`,
		`{"bike":"\u0042-7","place":"café","hours":100.0}`,
		"{\"bike\":\"B-7\",\"place\":\"cafe\u0301\",\"hours\":100}",
	}
	others := []string{
		`{"bike":"B-7","place":"café","hours":"100"}`,
		`{"bike":"B-7","place":"café","hours":100,"note":null}`,
		`{"bike":"B-7","place":"café","hours":[1,2]}`,
		`{"bike":"B-7","place":"café","hours":[2,1]}`,
		`{"bike":"B-7","place":"café","hours":9007199254740992}`,
		`{"bike":"B-7","place":"café","hours":9007199254740993}`,
		`{"bike":"b-7","place":"café","hours":100}`,
		`{"bike":"B-7","place":"café","hours":0}`,
	}
	all := Identity{All: true}
	seen := map[string]string{}
	for _, args := range same {
		seen[key(args, all)] = args
	}
	if len(seen) != 1 {
		t.Fatalf("one meaning has %d keys: %v", len(seen), seen)
	}
	for _, args := range others {
		k := key(args, all)
		if before, ok := seen[k]; ok {
			t.Errorf("%s has the key of %s", args, before)
		}
		seen[k] = args
	}
	if key(`{"bike":"B-7","place":"café","hours":-0}`, all) != key(others[7], all) {
		t.Error("-0 is not 0")
	}
	_, err := IdentityOf(`{"bike":"B-7","bike":"B-9","place":"café","hours":100}`, Identity{Fields: []string{"place"}})
	if !errors.Is(err, ErrInvalidArguments) || !strings.Contains(err.Error(), `"/bike"`) {
		t.Errorf("repeated member: %v", err)
	}
	named := Identity{Fields: []string{"bike", "place"}}
	if key(same[0], named) != key(others[5], named) || key(same[0], named) == key(others[6], named) {
		t.Error("identity fields do not decide the key")
	}
	if key(`{"id":9007199254740993}`, all) == key(`{"id":9007199254740992}`, all) {
		t.Error("integers above 2^53 share a key")
	}
}

func TestIdentityOf(t *testing.T) {
	for _, c := range []struct {
		name, args string
		fields     []string
		want       string
	}{
		{"only the named", `{"note":"x","order":7.0}`, []string{"order"}, `{"order":7}`},
		{"absent stays absent", `{"note":"x"}`, []string{"order"}, `{}`},
		{"null stays null", `{"order":null}`, []string{"order"}, `{"order":null}`},
		{"order of fields is nothing", `{"b":1,"a":2}`, []string{"b", "a"}, `{"a":2,"b":1}`},
		{"top level only", `{"x":{"order":1}}`, []string{"order"}, `{}`},
		{"NFC on both sides", "{\"e\u0301\":1}", []string{"é"}, `{"é":1}`},
		{"blank", "", []string{"order"}, `{}`},
	} {
		if got, err := IdentityOf(c.args, Identity{Fields: c.fields}); err != nil || got != c.want {
			t.Errorf("%s: %s, %v; want %s", c.name, got, err, c.want)
		}
	}
}

func TestKeyGolden(t *testing.T) {
	m := Meaning{Tenant: "acme", Scope: "T1", Tool: "issue_refund", Identity: `{"order_id":"o-1"}`, Ordinal: 2}
	if got, want := m.Preimage(), `["acme","T1","issue_refund",{"order_id":"o-1"},2]`; got != want {
		t.Errorf("preimage %s, want %s", got, want)
	}
	const want = "tfk1_3kf6v7mknppfvpj6m2ixn2mlzt33evam7gbjyu34bphemltemmca"
	if got := m.Key(); got != want {
		t.Errorf("key %s, want %s", got, want)
	}
	if (Meaning{}).Preimage() != `["","","",{},0]` {
		t.Errorf("empty preimage %s", Meaning{}.Preimage())
	}
}

// Every part of a meaning counts, and parts do not run into each other.
func TestKeyParts(t *testing.T) {
	seen := map[string]Meaning{}
	for _, m := range []Meaning{
		{}, {Tenant: "a"}, {Scope: "a"}, {Tool: "a"}, {Identity: `{"a":1}`}, {Ordinal: 1}, {Tenant: "a", Scope: "b"}, {Tenant: "a,b"}, {Tenant: `a","b`},
	} {
		k := m.Key()
		if before, ok := seen[k]; ok {
			t.Errorf("%+v and %+v share a key", before, m)
		}
		seen[k] = m
		if !regexp.MustCompile(`^tfk1_[a-z2-7]{52}$`).MatchString(k) {
			t.Errorf("key %q", k)
		}
		sum, err := ParseKey(k)
		if err != nil || FormatKey(sum) != k {
			t.Errorf("ParseKey(%s): %v", k, err)
		}
		last := k[len(k)-1]
		for _, bad := range []string{"", k[:len(k)-1], k + "a", strings.ToUpper(k), "tfk2_" + k[5:], k[:len(k)-1] + string(last+1)} {
			if _, err := ParseKey(bad); !errors.Is(err, ErrInvalidKey) {
				t.Errorf("ParseKey(%q): %v", bad, err)
			}
		}
	}
}
