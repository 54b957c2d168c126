package provider

import (
	"testing"

	"github.com/turnfold/turnfold/subjects/event"
)

func TestReadComplaint(t *testing.T) {
	for in, want := range map[string]Complaint{
		"":              {},
		"upstream died": {Message: "upstream died"},
		`"m"`:           {Message: "m"},
		`{"type":"error","error":{"type":"overloaded_error","message":"m"},"request_id":"r"}`:                     {Message: "m", Type: "overloaded_error", RequestID: "r"},
		`{"type":"error","code":"c","message":"m","param":null}`:                                                  {Message: "m", Code: "c"},
		`[{"error":{"code":429,"message":"m","status":"S","details":[{"reason":"R"},{"retryDelay":"1.5s"}]}}]`:    {Message: "m", Code: "429", Type: "S", Reason: "R", RetryAfterMS: 1500},
		`{"error":{"message":"m","details":[{"retryDelay":"soon"},{"retryDelay":"-1s"},{"retryDelay":"9999h"}]}}`: {Message: "m", RetryAfterMS: 86_400_000},
		`{"a":[[[[[[[[[[[[{"message":"deep"}]]]]]]]]]]]],"error":"m"}`:                                            {Message: "m"},
		`[[[[[[[[[[[[{"message":"deep"}]]]]]]]]]]]]`:                                                              {},
		`{"message":"m"`: {Message: "m"},
	} {
		if got := ReadComplaint([]byte(in)); got != want {
			t.Errorf("%s: %+v, want %+v", in, got, want)
		}
	}
}

func TestAddress(t *testing.T) {
	for _, c := range []struct{ base, version, want string }{
		{"http://h", "v1", "http://h/v1/p/q"}, {"http://h/", "v1", "http://h/v1/p/q"},
		{"http://h/v1", "v1", "http://h/v1/p/q"}, {"http://h/v1/", "v1", "http://h/v1/p/q"},
		{"http://h/v1beta", "v1", "http://h/v1beta/p/q"}, {"http://h/v1beta1", "v1", "http://h/v1beta1/p/q"},
		{"http://h/gw?k=1", "v1", "http://h/gw/v1/p/q?k=1"}, {"http://h/gw", "", "http://h/gw/p/q"},
		{"http://h/v1/account/gw", "v1", "http://h/v1/account/gw/v1/p/q"}, {"http://v1", "v1", "http://v1/v1/p/q"},
	} {
		u, err := Endpoint{BaseURL: c.base}.Address(c.version, "p", "q")
		if err != nil || u.String() != c.want {
			t.Errorf("%s: %v, %v, want %s", c.base, u, err, c.want)
		}
	}
}

func TestLabels(t *testing.T) {
	l := Labels{Fits: func(id string) bool { return len(id) < 8 }}
	var got []string
	for range 2 {
		l.Reply()
		for _, id := range []string{"a", "a", "", "far too long", "call_1"} {
			got = append(got, l.Call(id))
		}
		if r := []string{l.Result(0, "a"), l.Result(3, "far too long"), l.Result(1, ""), l.Result(2, "a"), l.Result(9, "stranger")}; r[0] != got[len(got)-5] ||
			r[1] != got[len(got)-2] || r[2] != got[len(got)-3] || r[3] != got[len(got)-4] || r[4] != "stranger" {
			t.Errorf("results %q of calls %q", r, got)
		}
	}
	seen := map[string]bool{}
	for _, id := range got {
		if seen[id] || id == "" || len(id) >= 8 {
			t.Errorf("ids %q", got)
		}
		seen[id] = true
	}
	if got[0] != "a" || got[4] != "call_1" {
		t.Errorf("ids %q", got)
	}
}

func TestSameJSON(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"{}", " { } ", true}, {`{"a":1}`, `{ "a" : 1 }`, true}, {`{"a":1}`, `{"a":1.0}`, false}, {`{"a":1}`, `{"a":2}`, false}, {"{", "{", false}, {"", "", false},
	} {
		if got := SameJSON([]byte(c.a), []byte(c.b)); got != c.want {
			t.Errorf("%s %s: %v", c.a, c.b, got)
		}
	}
}

// TestResponseID: the header's name for an answer comes first.
func TestResponseID(t *testing.T) {
	for header, want := range map[string]string{"": "resp_1", "req_1": "req_1"} {
		a := &attempt{dec: named{}, header: map[string][]string{"X-Request-Id": {header}}}
		if f := a.sealed(&event.AttemptFinished{}).(*event.AttemptFinished); f.RequestID != want {
			t.Errorf("%q, want %q", f.RequestID, want)
		}
	}
}

type named struct{ Decoder }

func (named) ResponseID() string { return "resp_1" }
