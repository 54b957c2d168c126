package provider

import (
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/turnfold/turnfold/subjects/event"
)

func TestClassify(t *testing.T) {
	for _, c := range []struct {
		status    int
		words     []string
		class     event.Class
		retryable bool
	}{
		{400, nil, event.InvalidRequest, false},
		{400, []string{"context_length_exceeded", "invalid_request_error"}, event.ContextLength, false},
		{400, []string{"content_filter"}, event.Filtered, false},
		{401, nil, event.Auth, false},
		{402, nil, event.RateLimited, false},
		{403, nil, event.Auth, false},
		{404, nil, event.InvalidRequest, false},
		{408, nil, event.Timeout, true},
		{409, nil, event.ServerError, true},
		{413, nil, event.InvalidRequest, false},
		{422, nil, event.InvalidRequest, false},
		{429, []string{"", "tokens"}, event.RateLimited, true},
		{429, []string{"insufficient_quota"}, event.RateLimited, false},
		{429, []string{"", "billing_error"}, event.RateLimited, false},
		{500, []string{"server_error"}, event.ServerError, true},
		{503, []string{"overloaded_error"}, event.Overloaded, true},
		{504, nil, event.ServerError, true},
		{529, nil, event.Overloaded, true},
		{0, []string{"", ""}, event.ServerError, true},
		{0, []string{"529"}, event.Overloaded, true},
		{0, []string{"429", "whatever"}, event.RateLimited, true},
		{0, []string{"", "UNAVAILABLE"}, event.ServerError, true},
		{0, []string{"rate_limit_exceeded", "requests"}, event.RateLimited, true},
		{0, []string{"invalid_prompt"}, event.InvalidRequest, false},
	} {
		if class, retryable := Classify(c.status, c.words...); class != c.class || retryable != c.retryable {
			t.Errorf("%d %q: %s %v, want %s %v", c.status, c.words, class, retryable, c.class, c.retryable)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		header map[string]string
		want   int64
	}{
		{nil, 0},
		{map[string]string{"Retry-After": "3"}, 3000},
		{map[string]string{"Retry-After": "0.5"}, 500},
		{map[string]string{"Retry-After": "3", "Retry-After-Ms": "250"}, 250},
		{map[string]string{"Retry-After": "-3"}, 0},
		{map[string]string{"Retry-After": "1e300"}, 86_400_000},
		{map[string]string{"Retry-After": "NaN"}, 0},
		{map[string]string{"Retry-After": "soon"}, 0},
		{map[string]string{"Retry-After": now.Add(7 * time.Second).Format(http.TimeFormat), "Date": now.Format(http.TimeFormat)}, 7000},
		{map[string]string{"Retry-After": now.Format(http.TimeFormat), "Date": now.Add(time.Second).Format(http.TimeFormat)}, 0},
	} {
		h := http.Header{}
		for k, v := range c.header {
			h.Set(k, v)
		}
		if got := RetryAfter(h); got != c.want {
			t.Errorf("%v: %d, want %d", c.header, got, c.want)
		}
	}
}

func TestCheckArguments(t *testing.T) {
	for text, ok := range map[string]bool{
		"": true, " \t\r\n": true, "{}": true, ` {"a":{"b":[1e2,"\ud83d\ude00"]}} `: true, `{"n":9007199254740993}`: true,
		"{": false, "[]": false, "null": false, `"{}"`: false, "{}{}": false, "{} x": false, "\u00a0": false, "{}\u00a0": false,
		`{"a":1,"a":2}`: false, `{"x":[{"a":1,"\u0061":2}]}`: false, `{"a":"\ud83d"}`: false, "{\"a\":\"\xff\"}": false,
		`{"a":01}`: false, `{"a":1,}`: false, `{'a':1}`: false, `{"a":NaN}`: false, "{\"a\":\"\n\"}": false, "\ufeff{}": false,
	} {
		if got := CheckArguments(text) == nil; got != ok {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// FuzzJoiner: however a text is cut, the pieces are valid UTF-8 and join to the same.
func FuzzJoiner(f *testing.F) {
	f.Add([]byte(`aé😀`), 2)
	f.Add([]byte(`\ud83d\ude00\ud83d`), 6)
	f.Add([]byte("\xed\xa0\xbd\xed\xb8\x80\xff"), 3)
	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		var one, two Joiner
		whole := one.Next(in)
		whole += one.Flush()
		cut = min(max(cut, 0), len(in))
		a := two.Next(in[:cut])
		b := two.Next(in[cut:]) + two.Flush()
		if !utf8.ValidString(a) || !utf8.ValidString(b) {
			t.Fatalf("%q %q", a, b)
		}
		if one.Damaged != two.Damaged {
			t.Fatalf("%q cut at %d: damaged %v and %v", in, cut, one.Damaged, two.Damaged)
		}
		if a+b != whole {
			t.Fatalf("%q cut at %d: %q and %q", in, cut, a+b, whole)
		}
	})
}

func TestOneLine(t *testing.T) {
	if got := OneLine("a\n\tb\x00\xffc", 100); got != "a b \uFFFDc" {
		t.Errorf("%q", got)
	}
	if got := OneLine(strings.Repeat("é", 100), 50); len(got) > 50 || !utf8.ValidString(got) || !strings.HasSuffix(got, "é…") {
		t.Errorf("%q", got)
	}
	if got := Said(`cannot parse {"card":1}`); got != "cannot parse …" {
		t.Errorf("%q", got)
	}
}

// TestBigEvent: an event of 16 MiB in small packets takes linear time.
func TestBigEvent(t *testing.T) {
	text := strings.Repeat("x", 15<<20)
	began := time.Now()
	n := 0
	err := readEvents(smallReads{strings.NewReader("data: " + text + "\n\n")}, 16<<20, func(_ string, data []byte) (bool, error) {
		n = len(data)
		return false, nil
	})
	if err != nil || n != len(text) || time.Since(began) > 10*time.Second {
		t.Errorf("%d bytes, %v, after %s", n, err, time.Since(began))
	}
}

type smallReads struct{ r *strings.Reader }

func (s smallReads) Read(p []byte) (int, error) { return s.r.Read(p[:min(len(p), 1400)]) }

// TestGrammar: line ends, comments, several data lines, and a cut last event.
func TestGrammar(t *testing.T) {
	for in, want := range map[string]string{
		"\ufeffdata: a\r\n\r\ndata:b\r\rdata: c\ndata: d\n\n":   "|a|b|c\nd",
		"event: x\ndata: a\n\n":                                 "x|a",
		": c\n\ndata\n\ndata:\n\nid: 1\nretry: 5\nfoo: bar\n\n": "",
		"data: a\n\ndata: cut\n":                                "|a",
		"data: a\n\ndata: cut":                                  "|a",
	} {
		for _, bytewise := range []bool{false, true} {
			got := ""
			r := strings.NewReader(in)
			take := func(name string, data []byte) (bool, error) { got += name + "|" + string(data); return false, nil }
			var err error
			if bytewise {
				err = readEvents(iotest.OneByteReader(r), 1<<20, take)
			} else {
				err = readEvents(r, 1<<20, take)
			}
			if err != nil || got != want {
				t.Errorf("%q: %q, %v", in, got, err)
			}
		}
	}
}
