package effect

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
)

// The spelling is frozen: a change of any line changes keys that exist.
func TestCanonicalGolden(t *testing.T) {
	for _, c := range []struct{ name, args, want string }{
		{"empty", "", `{}`},
		{"blank", " \t\r\n", `{}`},
		{"empty object", " { } ", `{}`},
		{"members sorted", `{"b":1,"a":2,"":3,"B":4}`, `{"":3,"B":4,"a":2,"b":1}`},
		{"sorted by code point, not UTF-16", `{"😀":1,"！":2}`, `{"！":2,"😀":1}`},
		{"nested members sorted", `{"x":[{"b":1,"a":[]}]}`, `{"x":[{"a":[],"b":1}]}`},
		{"array order kept", `{"a":[2,1]}`, `{"a":[2,1]}`},
		{"types and null kept", `{"a":"1","b":1,"c":null,"d":true,"e":false}`, `{"a":"1","b":1,"c":null,"d":true,"e":false}`},
		{"escapes decoded", `{"\u0061":"\u00e9\/\"\\\u000a\u0001\ud83d\ude00"}`, `{"a":"é/\"\\\n\u0001😀"}`},
		{"not escaped", `{"a":"<>&\u2028\u007f"}`, "{\"a\":\"<>&\u2028\u007f\"}"},
		{"NFC in values and names", "{\"cafe\u0301\":\"A\u030a \u212b\"}", `{"café":"Å Å"}`},
		{"no NFKC", `{"a":"ﬁ²"}`, `{"a":"ﬁ²"}`},
		{"integers above 2^53", `{"a":[9007199254740992,9007199254740993]}`, `{"a":[9007199254740992,9007199254740993]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Canonical(c.args)
			if err != nil || got != c.want {
				t.Errorf("Canonical(%s) = %s, %v; want %s", c.args, got, err, c.want)
			}
		})
	}
}

func TestCanonicalInvalid(t *testing.T) {
	deep := func(n int) string {
		return strings.Repeat(`{"a":`, n-1) + `{}` + strings.Repeat(`}`, n-1)
	}
	for _, c := range []struct{ name, args, where string }{
		{"cut", `{"a":1`, "unexpected EOF"},
		{"two objects", `{}{}`, "follows"},
		{"trailing comma", `{"a":1,}`, "byte 6"},
		{"trailing garbage", `{} x`, "follows"},
		{"array", `[]`, "not a JSON object"},
		{"string", `"{}"`, "not a JSON object"},
		{"null", `null`, "not a JSON object"},
		{"byte order mark", "\ufeff{}", "byte 0"},
		{"no-break space", "\u00a0", "byte 0"},
		{"comment", `{/**/}`, "byte 1"},
		{"single quotes", `{'a':1}`, "byte 1"},
		{"NaN", `{"a":NaN}`, `"/a"`},
		{"leading zero", `{"a":01}`, "byte 6"},
		{"plus sign", `{"a":+1}`, `"/a"`},
		{"repeated", `{"a":1,"a":1}`, `"/a": repeated member`},
		{"repeated after decoding", `{"a":1,"\u0061":2}`, `"/a": repeated member`},
		{"repeated after NFC", "{\"x\":{\"caf\u00e9\":1,\"cafe\u0301\":2}}", `"/x/café": repeated member`},
		{"pointer escaped", `{"a/b":{"~":1,"~":1}}`, `"/a~1b/~0"`},
		{"lone high surrogate", `{"a":"\ud83d"}`, `"/a"`},
		{"lone low surrogate", `{"a":["\ude00"]}`, `"/a/0"`},
		{"surrogate in a name", `{"\ud83dx":1}`, "surrogate"},
		{"invalid UTF-8", "{\"a\":\"\xff\"}", `"/a"`},
		{"control character", "{\"a\":\"\n\"}", `"/a"`},
		{"exponent", `{"a":[0,1e999999999]}`, `"/a/1": number beyond`},
		{"exponent beyond int64", `{"a":1e99999999999999999999}`, "number beyond"},
		{"small exponent", `{"a":1e-10001}`, "number beyond"},
		{"too deep", deep(1001), "nested deeper than 1000"},
		{"far too deep", strings.Repeat(`{"a":`, 100_000), "nested deeper"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Canonical(c.args)
			if !errors.Is(err, ErrInvalidArguments) || !strings.Contains(err.Error(), c.where) {
				t.Errorf("Canonical = %q, %v; want an error that says %q", got, err, c.where)
			}
		})
	}
	if _, err := Canonical(deep(1000)); err != nil {
		t.Errorf("depth 1000: %v", err)
	}
}

func TestNumber(t *testing.T) {
	for _, c := range []struct {
		want string
		from []string
	}{
		{"0", []string{"0", "-0", "0.0", "-0e5", "0e99999999999999999999", "0.000"}},
		{"49", []string{"49", "49.0", "4.9e1", "490e-1", "0.49E+2", "0.049e3", "49e00"}},
		{"-100", []string{"-100", "-1e2", "-100.00", "-0.001e5"}},
		{"9007199254740993", []string{"9007199254740993", "9007199254740993.0", "9.007199254740993e15"}},
		{"9007199254740992", []string{"9007199254740992"}},
		{"100000000000000000000", []string{"1e20", "100000000000000000000"}},
		{"1e+21", []string{"1e21", "1000000000000000000000"}},
		{"1.23456789012345678901e+20", nil},
		{"123456789012345678901", []string{"1.23456789012345678901e20"}},
		{"123456789012345678901.5", []string{"123456789012345678901.50"}},
		{"1.2345678901234567890125e+21", []string{"1234567890123456789012.5"}},
		{"0.000001", []string{"1e-6", "0.0000010"}},
		{"1e-7", []string{"0.0000001"}},
		{"-1.25e-7", []string{"-0.000000125"}},
		{"12.5", []string{"1.25e1", "125e-1"}},
		{"1e+10000", []string{"1e10000", "0.1e10001"}},
		{"1e-10000", []string{"1e-10000", "10e-10001"}},
	} {
		for _, raw := range c.from {
			if got, err := number(raw); err != nil || got != c.want {
				t.Errorf("number(%s) = %s, %v; want %s", raw, got, err, c.want)
			}
		}
	}
	long := strings.Repeat("0", 30_000) + "1"
	if got, err := number("0." + long + "e30001"); err != nil || got != "1" {
		t.Errorf("a long way to 1: %s, %v", got, err)
	}
}

// NFC beyond the Stream-Safe limit: U+034F must not be made up, and order and
// composition still hold.
func TestNFCLongSegments(t *testing.T) {
	low, high := "\u0323", "\u0301" // classes 220 and 230
	for _, c := range []struct{ in, want string }{
		{"a" + strings.Repeat(high, 40), "á" + strings.Repeat(high, 39)},
		{"a" + strings.Repeat(high, 40) + low, "ạ" + strings.Repeat(high, 40)},
		{strings.Repeat(high, 40) + low, low + strings.Repeat(high, 40)},
		{"x\u0301" + strings.Repeat("\u034f", 40), "x\u0301" + strings.Repeat("\u034f", 40)},
		{"\u1100\u1161\u11a8" + strings.Repeat(high, 40), "각" + strings.Repeat(high, 40)},
	} {
		if got := nfc(c.in); got != c.want {
			t.Errorf("nfc(%+q) = %+q, want %+q", c.in, got, c.want)
		}
		if again := nfc(c.want); again != c.want {
			t.Errorf("nfc is not idempotent on %+q", c.want)
		}
	}
	plain := strings.Repeat(high, 45)
	joined := strings.Repeat(high, 30) + "\u034f" + strings.Repeat(high, 15)
	if nfc("a"+plain) == nfc("a"+joined) {
		t.Error("two strings have one spelling")
	}
}

// The tables of norm come with the toolchain, not only with go.mod. Newer tables
// change the spelling of no character they had before, but characters that they
// add may get one. Whoever raises this line says so in the release notes.
func TestUnicodeVersion(t *testing.T) {
	if norm.Version != "15.0.0" {
		t.Errorf("Unicode tables are %s, were 15.0.0", norm.Version)
	}
}

func FuzzCanonical(f *testing.F) {
	for _, s := range []string{``, ` `, `{}`, `{"a":1e2,"b":[null,true,"\ud83d\ude00"]}`, `{"a":-0.00e-5}`, "{\"e\u0301\":1}",
		`{"a":1e999999999}`, `{"a":"\ud800"}`, "{\"a\":\"" + strings.Repeat("\u0301\u0323", 20) + "\"}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, args string) {
		once, err := Canonical(args)
		value, vErr := Value(args)
		if (err == nil) != (vErr == nil) {
			t.Fatalf("Canonical says %v, Value %v", err, vErr)
		}
		if err != nil {
			if !errors.Is(err, ErrInvalidArguments) {
				t.Fatalf("unmarked error %v", err)
			}
			return
		}
		if strings.TrimSpace(args) != "" && !reflect.DeepEqual(value, decoded(t, args)) {
			t.Fatalf("Value(%s) = %#v", args, value)
		}
		twice, err := Canonical(once)
		if err != nil || twice != once {
			t.Fatalf("Canonical(%s) = %s, %v", once, twice, err)
		}
		for _, pointer := range []string{"", "/a", "/a/0", "/b/~1"} {
			raw, ok := Lookup(args, pointer)
			if ok && !strings.Contains(args, raw) {
				t.Fatalf("Lookup(%q) made up %q", pointer, raw)
			}
			EmptyRows(args, pointer)
		}
		if _, err := Canonical(Redact(args, []string{"/a", "/b/0"})); err != nil {
			t.Fatalf("Redact broke the arguments: %v", err)
		}
	})
}
