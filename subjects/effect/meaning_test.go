package effect

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"
)

// decimal is coefficient × 10^exponent.
type decimal struct {
	coefficient string
	exponent    int
}

var pieces = []string{"a", "b", "Z", "0", " ", `"`, `\`, "/", "\n", "\x01", "é", "e\u0301", "Å", "\u212b", "가",
	"\u0323", "\u0301", "😀", "！", "\u2028", "ﬁ", "\u0958", "\ufffd"}

func drawString(t *rapid.T) string {
	return norm.NFC.String(strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 5).Draw(t, "string"), ""))
}

// drawValue draws from small sets, so that equal and nearly equal values meet.
func drawValue(t *rapid.T, depth int) any {
	kind := rapid.IntRange(0, 6).Draw(t, "kind")
	if depth == 0 {
		kind %= 5
	}
	switch kind {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2, 3:
		digits := rapid.StringMatching(`-?[0-9]{1,3}(00|9007199254740993|123456789012345678901)?`).Draw(t, "digits")
		return decimal{digits, rapid.IntRange(-25, 25).Draw(t, "exponent")}
	case 4:
		return drawString(t)
	case 5:
		return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) any { return drawValue(t, depth-1) }), 0, 3).Draw(t, "array")
	default:
		return drawObject(t, depth-1)
	}
}

func drawObject(t *rapid.T, depth int) map[string]any {
	m := map[string]any{}
	for range rapid.IntRange(0, 4).Draw(t, "members") {
		m[drawString(t)] = drawValue(t, depth)
	}
	return m
}

// spell writes v in one of its many spellings.
func spell(t *rapid.T, v any) string {
	space := func() string { return rapid.SampledFrom([]string{"", "", " ", "\n\t"}).Draw(t, "space") }
	var parts []string
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return fmt.Sprint(v)
	case decimal:
		return spellNumber(t, v)
	case string:
		return spellString(t, v)
	case []any:
		for _, e := range v {
			parts = append(parts, space()+spell(t, e)+space())
		}
		return "[" + space() + strings.Join(parts, ",") + "]"
	case map[string]any:
		for _, k := range rapid.Permutation(slices.Sorted(maps.Keys(v))).Draw(t, "order") {
			parts = append(parts, space()+spellString(t, k)+space()+":"+space()+spell(t, v[k])+space())
		}
		return space() + "{" + space() + strings.Join(parts, ",") + "}" + space()
	}
	panic(fmt.Sprintf("no spelling for %T", v))
}

func spellString(t *rapid.T, s string) string {
	if rapid.Bool().Draw(t, "nfd") {
		s = norm.NFD.String(s)
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		must := r < ' ' || r == '"' || r == '\\'
		switch {
		case (r == '"' || r == '\\' || r == '/') && rapid.Bool().Draw(t, "short"):
			b.WriteString(`\` + string(r))
		case must || rapid.IntRange(0, 2).Draw(t, "escape") == 0:
			for _, u := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, rapid.SampledFrom([]string{`\u%04x`, `\u%04X`}).Draw(t, "case"), u)
			}
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func spellNumber(t *rapid.T, d decimal) string {
	sign, digits := "", d.coefficient
	if rest, ok := strings.CutPrefix(digits, "-"); ok {
		sign, digits = "-", rest
	}
	digits = strings.TrimLeft(digits, "0")
	if digits == "" {
		return sign + rapid.SampledFrom([]string{"0", "0.0", "0e7", "0.00E-3"}).Draw(t, "zero")
	}
	exponent := d.exponent
	if zeros := rapid.IntRange(0, 3).Draw(t, "zeros"); zeros > 0 {
		digits, exponent = digits+strings.Repeat("0", zeros), exponent-zeros
	}
	if point := rapid.IntRange(0, len(digits)).Draw(t, "point"); point > 0 { // digits after the point
		exponent += point
		whole := digits[:len(digits)-point]
		if whole == "" {
			whole = "0"
		}
		digits = whole + "." + digits[len(digits)-point:]
	}
	if exponent == 0 && rapid.Bool().Draw(t, "bare") {
		return sign + digits
	}
	forms := []string{"%se%d", "%sE%d", "%se%+d", "%sE%+03d"}
	return sign + fmt.Sprintf(rapid.SampledFrom(forms).Draw(t, "form"), digits, exponent)
}

// oracle spells the meaning of JSON text by other means: encoding/json reads it,
// math/big keeps its numbers.
func oracle(t *rapid.T, text string) string {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("oracle: %v in %s", err, text)
	}
	var write func(v any) string
	write = func(v any) string {
		var parts []string
		switch v := v.(type) {
		case json.Number:
			r, ok := new(big.Rat).SetString(v.String())
			if !ok {
				t.Fatalf("oracle: number %s", v)
			}
			return "n" + r.RatString()
		case string:
			return fmt.Sprintf("%q", norm.NFC.String(v))
		case []any:
			for _, e := range v {
				parts = append(parts, write(e))
			}
			return "[" + strings.Join(parts, " ") + "]"
		case map[string]any:
			for k, e := range v {
				parts = append(parts, fmt.Sprintf("%q", norm.NFC.String(k))+":"+write(e))
			}
			slices.Sort(parts)
			return "{" + strings.Join(parts, " ") + "}"
		}
		return fmt.Sprint(v)
	}
	return write(v)
}

func TestRespellingKeepsMeaning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawObject(t, 2)
		a, b := spell(t, v), spell(t, v)
		ca, err := Canonical(a)
		if err != nil {
			t.Fatalf("%s: %v", a, err)
		}
		cb, err := Canonical(b)
		if err != nil || ca != cb {
			t.Fatalf("one value, two canonical texts (%v)\n%s\n%s\n%s\n%s", err, a, ca, b, cb)
		}
		if oracle(t, ca) != oracle(t, a) {
			t.Fatalf("canonical text %s does not mean %s", ca, a)
		}
		m, n := Meaning{Tenant: "t", Identity: ca}, Meaning{Tenant: "t", Identity: cb}
		if m.Key() != n.Key() {
			t.Fatalf("one meaning, two keys")
		}
	})
}

// TestValueAgainstEncodingJSON: Value is what another decoder makes of the text, to the
// letter, escapes and numbers included.
func TestValueAgainstEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		args := spell(t, drawObject(t, 2))
		got, err := Value(args)
		if err != nil {
			t.Fatal(err)
		}
		if want := decoded(t, args); !reflect.DeepEqual(got, want) {
			t.Fatalf("Value(%s) = %#v, want %#v", args, got, want)
		}
	})
	if got, err := Value(" "); err != nil || !reflect.DeepEqual(got, map[string]any{}) {
		t.Errorf("of a blank text: %#v, %v", got, err)
	}
}

// decoded is the value of a JSON text as encoding/json has it.
func decoded(t interface{ Fatal(...any) }, text string) (v any) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(text, err)
	}
	return v
}

func TestCanonicalEqualExactlyIfOracleIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := drawString(t)
		a := spell(t, map[string]any{k: drawValue(t, 1)})
		b := spell(t, map[string]any{k: drawValue(t, 1)})
		ca, errA := Canonical(a)
		cb, errB := Canonical(b)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		same := oracle(t, a) == oracle(t, b)
		if (ca == cb) != same || (Meaning{Identity: ca}.Key() == Meaning{Identity: cb}.Key()) != same {
			t.Fatalf("oracle says same=%v of\n%s = %s\n%s = %s", same, a, ca, b, cb)
		}
	})
}

// Numbers alone, dense enough that many pairs are equal.
func TestNumbersAgainstBigRat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.StringMatching(`-?(0|[1-9][0-9]{0,2})(\.[0-9]{1,3})?([eE][+-]?[0-9]{1,2})?`)
		a, b := draw.Draw(t, "a"), draw.Draw(t, "b")
		na, _ := number(a)
		nb, _ := number(b)
		ra, _ := new(big.Rat).SetString(a)
		rb, _ := new(big.Rat).SetString(b)
		if (na == nb) != (ra.Cmp(rb) == 0) {
			t.Fatalf("%s = %s, %s = %s", a, na, b, nb)
		}
		if back, ok := new(big.Rat).SetString(na); !ok || back.Cmp(ra) != 0 {
			t.Fatalf("number(%s) = %s, another value", a, na)
		}
	})
}

// Where norm.NFC is trusted, the exact algorithm agrees with it.
func TestNFCExactAgainstNorm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		more := []string{"\u1100", "\u1161", "\u11a8", "ở", "\u031b", "\u0344", "\u0f73", "\U0001d15e", "\u0b47", "\u0b3e", "ά"}
		s := strings.Join(rapid.SliceOfN(rapid.SampledFrom(append(more, pieces...)), 0, 12).Draw(t, "s"), "")
		if longSegment(s) {
			t.Skip("beyond norm's limit")
		}
		if got, want := nfcExact(s), norm.NFC.String(s); got != want {
			t.Fatalf("nfcExact(%+q) = %+q, want %+q", s, got, want)
		}
	})
}

func TestNFCExactEveryRune(t *testing.T) {
	for r := rune(0x80); r <= 0x10ffff; r++ {
		if 0xd800 <= r && r <= 0xdfff {
			continue
		}
		if got, want := nfcExact(string(r)), norm.NFC.String(string(r)); got != want {
			t.Fatalf("nfcExact(%U) = %+q, want %+q", r, got, want)
		}
	}
}
