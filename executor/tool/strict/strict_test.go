package strict

import (
	"encoding/json"
	"testing"
	"time"
)

func value(t *testing.T, text string) (Value, *Report) {
	t.Helper()
	report := &Report{}
	v, err := Parse("f.yaml", []byte(text), report)
	if err != nil {
		t.Fatal(err)
	}
	return v, report
}

func TestJSON(t *testing.T) {
	for text, want := range map[string]string{
		"{a: 0x10, b: 1_000, c: 0o17, d: .5, e: +3}":                            `{"a":16,"b":1000,"c":15,"d":0.5,"e":3}`,
		"{a: 1.50, b: 1e2, c: 123456789012345678901234567890}":                  `{"a":1.50,"b":1e2,"c":123456789012345678901234567890}`,
		"{a: yes, b: True, c: ~, d: 2020-01-01, 1: x}":                          `{"a":"yes","b":true,"c":null,"d":"2020-01-01","1":"x"}`,
		"a: &x [1, 2]\nb: *x\n":                                                 `{"a":[1,2],"b":[1,2]}`,
		"{\"z\": \"\\u0041\\ud83d\\ude00\", \"a\": [true, null, -0.0, 1E+2]}\n": `{"z":"A` + "\U0001F600" + `","a":[true,null,-0.0,1E+2]}`,
	} {
		v, report := value(t, text)
		if got := v.JSON(); got != want || report.Err() != nil {
			t.Errorf("%s: got %s, %v", text, got, report.Err())
		}
	}
	for _, text := range []string{"{a: .nan}", "{a: 1, a: 2}", "{<<: {a: 1}}", "? [a]\n: b\n"} {
		v, report := value(t, text)
		if got := v.JSON(); got != "" || report.Err() == nil {
			t.Errorf("%s: got %s", text, got)
		}
	}
}

func TestJSONLines(t *testing.T) {
	v, report := value(t, "{\n\"a\": {\n \"b\": [1,\n \"x\"]}}")
	v.Object("a").Get("a").Object("b").Get("b").List()[1].Int(0, 1, 2)
	if err := report.Err(); err == nil || err.Error() != `f.yaml:4: a.b[1]: is the text "x", want a whole number; write a number from 1 to 2` {
		t.Errorf("got %v", err)
	}
}

func TestNearest(t *testing.T) {
	known := []string{"providers", "partitions", "retry", "api_key_env"}
	for word, want := range map[string]string{"provider": "providers", "apiKeyEnv": "api_key_env", "rtery": "retry", "colour": "", "": ""} {
		if got := Nearest(word, known); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{10 * time.Minute: "10m", time.Hour: "1h", 90 * time.Second: "1m30s",
		0: "0s", 20 * time.Second: "20s", 100 * time.Minute: "1h40m", 500 * time.Millisecond: "500ms"} {
		if got := Short(d); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if back, err := time.ParseDuration(Short(d)); err != nil || back != d {
			t.Errorf("%s reads as %s", Short(d), back)
		}
	}
}

// FuzzParse: no file makes the reader panic, and what it makes JSON of is JSON.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "a: [1, {b: c}]", `{"a": {"b": null}}`, "a: &x {b: *x}", "- ~\n- !!binary YQ==", "? {a: b}\n: c", "\xff", "{\"a\": 1", "a: *b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		report := &Report{}
		v, err := Parse("f", []byte(text), report)
		if err != nil {
			return
		}
		if out := v.JSON(); out != "" && !json.Valid([]byte(out)) {
			t.Errorf("%q gives %q", text, out)
		}
		o := v.Object("a")
		o.Need("b", "")
		o.Get("a").List()
		_, _ = o.Get("a").String(), o.Get("a").Int(1, 0, 9)
		o.Get("a").Duration(0, 0, 1)
		_ = report.Err()
	})
}
