package gateway

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
)

// Bad input of every kind is a problem that names what is wrong, and opens nothing.
func TestBadRequests(t *testing.T) {
	w := newWorld(t, nil)
	refused := func(what, body, named string, statuses ...int) {
		t.Helper()
		status, header, answer := w.call("POST", "/v1/turns", body)
		checkProblem(t, what, status, header, answer, named, statuses...)
	}
	for what, body := range map[string]string{
		"blank": " ", "cut": `{"input":"Hi"`, "cut in a text": `{"input":"Hi`, "list": `["Hi"]`, "null": `null`,
		"two objects": `{"input":"a"}{"input":"b"}`, "trailing": `{"input":"Hi"} x`, "not UTF-8": "{\"input\":\"\xff\xfe\"}",
		"repeated": `{"input":"a","input":"b"}`, "lone surrogate": `{"input":"\ud800"}`, "comma": `{"input":"a",}`,
		"deep": `{"input":` + strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + `}`,
	} {
		refused(what, body, "", 400, 422)
	}
	for _, c := range []struct{ what, body, named string }{
		{"unknown field", `{"input":"Hi","inptu":1}`, "inptu"},
		{"nothing", `{}`, "input"},
		{"both", `{"input":"Hi","messages":[{"role":"user","content":"x"}]}`, "messages"},
		{"input number", `{"input":5}`, "input"},
		{"input null", `{"input":null}`, "input"},
		{"input empty", `{"input":""}`, "input"},
		{"messages text", `{"messages":"x"}`, "messages"},
		{"messages empty", `{"messages":[]}`, "messages"},
		{"message text", `{"messages":["x"]}`, "messages[0]"},
		{"role", `{"messages":[{"role":"wizard","content":"x"}]}`, "role"},
		{"no role", `{"messages":[{"content":"x"}]}`, "role"},
		{"no content", `{"messages":[{"role":"user"}]}`, "content"},
		{"content list", `{"messages":[{"role":"user","content":[]}]}`, "content"},
		{"message field", `{"messages":[{"role":"user","content":"x","name":"y"}]}`, "messages[0].name"},
		{"route", `{"input":"Hi","route":"nowhere"}`, "route"},
		{"tool", `{"input":"Hi","tools":["find","no_such_tool"]}`, "no_such_tool"},
		{"tools text", `{"input":"Hi","tools":"find"}`, "tools"},
		{"tool twice", `{"input":"Hi","tools":["find","find"]}`, "tools[1]"},
		{"tool number", `{"input":"Hi","tools":[1]}`, "tools[0]"},
		{"deadline word", `{"input":"Hi","deadline":"soonish"}`, "deadline"},
		{"deadline negative", `{"input":"Hi","deadline":"-5s"}`, "deadline"},
		{"deadline zero", `{"input":"Hi","deadline":"0s"}`, "deadline"},
		{"deadline number", `{"input":"Hi","deadline":5}`, "deadline"},
	} {
		refused(c.what, c.body, c.named, 422)
	}
	for _, id := range []any{"", "a b", "a.b", "*", ">", "../../etc", "a/b", strings.Repeat("x", 300), "tu\u00fcrn", "a\nb", "\x00", 7, nil, map[string]any{}} {
		refused("turn id", marshal(t, map[string]any{"input": "Hi", "turn": id}), "turn", 422)
	}
	refused("large", `{"input":"`+strings.Repeat("a", 2<<20)+`"}`, "", 413)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		data := make([]byte, 1+rng.IntN(200))
		for i := range data {
			data[i] = byte(rng.UintN(256))
		}
		if !json.Valid(data) {
			refused("random", string(data), "", 400, 422)
		}
	}
	if _, _, body := w.call("GET", "/v1/turns?status=all", ""); body != `{"turns":[],"more":false}`+"\n" {
		t.Errorf("a bad request opened a turn: %s", body)
	}
}

func TestUnknownAddresses(t *testing.T) {
	w := newWorld(t, nil)
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"DELETE", "/v1/turns", 405}, {"PUT", "/v1/turns/none", 405}, {"GET", "/v1/turns/none/cancel", 405},
		{"POST", "/v1/turns/none/feed", 405}, {"POST", "/v1/turns/none/audit", 405}, {"POST", "/readyz", 405},
		{"GET", "/v1/turns/none", 404}, {"GET", "/v1/turns/none/feed", 404}, {"GET", "/v1/turns/none/audit", 501},
		{"POST", "/v1/turns/none/cancel", 404}, {"POST", "/v1/turns/none/calls/1.0/approve", 404},
		{"POST", "/v1/turns/none/calls/c1/approve", 400}, {"POST", "/v1/turns/none/calls/c1/deny", 400},
		{"GET", "/v1/effects/none", 400}, {"GET", "/v1/nothing", 404}, {"GET", "/v1/turns/a%00b/feed", 400},
		{"GET", "/v1/turns/a.b", 400}, {"GET", "/v1/turns/*", 400}, {"GET", "/v1/turns?limit=x", 422},
		{"GET", "/v1/effects/tfk1_" + strings.Repeat("a", 52), 404},
	} {
		body := ""
		if c.method == "POST" {
			body = "{}"
		}
		status, header, answer := w.call(c.method, c.path, body)
		checkProblem(t, c.method+" "+c.path, status, header, answer, "", c.status)
		if status == 405 && header.Get("Allow") == "" {
			t.Errorf("%s %s: 405 without Allow", c.method, c.path)
		}
	}
	status, header, answer := w.call("POST", "/v1/turns", `{"input":"x"}`, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site")
	checkProblem(t, "other page", status, header, answer, "", http.StatusForbidden)
	req, err := http.NewRequest("GET", w.base+"/v1/turns", nil)
	must(t, err)
	req.Host = "rebound.example"
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	res, err := w.client.Do(req)
	must(t, err)
	res.Body.Close()
	if res.StatusCode != http.StatusForbidden {
		t.Errorf("a rebound name gets %d", res.StatusCode)
	}
}

func checkProblem(t *testing.T, what string, status int, header http.Header, body, named string, statuses ...int) {
	t.Helper()
	good := false
	for _, s := range statuses {
		good = good || s == status
	}
	var p map[string]any
	switch {
	case !good:
		t.Errorf("%s: status %d, want %v: %.200s", what, status, statuses, body)
	case header.Get("Content-Type") != "application/problem+json" || json.Unmarshal([]byte(body), &p) != nil || p["title"] == nil:
		t.Errorf("%s: no problem: %s %.200s", what, header.Get("Content-Type"), body)
	case !strings.Contains(body, named):
		t.Errorf("%s: does not name %q: %.200s", what, named, body)
	}
}

// Two ways to write one request have one digest; any other request has another.
func TestDigest(t *testing.T) {
	digest := func(body string) string {
		t.Helper()
		r, err := parseTurn([]byte(body))
		must(t, err)
		d, err := r.digest()
		must(t, err)
		return d
	}
	want := digest(`{"turn":"t","input":"Hi"}`)
	for _, same := range []string{`{ "input" : "H\u0069", "turn":"t" }`, `{"turn":"t","messages":[{"content":"Hi","role":"user"}]}`, `{"turn":"t","input":"Hi","route":"default"}`} {
		if digest(same) != want {
			t.Errorf("%s is another request", same)
		}
	}
	for _, other := range []string{`{"turn":"u","input":"Hi"}`, `{"turn":"t","input":"Hi!"}`, `{"turn":"t","input":"Hi","tools":[]}`,
		`{"turn":"t","input":"Hi","tools":["find"]}`, `{"turn":"t","input":"Hi","system":"x"}`, `{"turn":"t","input":"Hi","deadline":"5s"}`} {
		if digest(other) == want {
			t.Errorf("%s is the same request", other)
		}
	}
	// Frozen: turns that are stored must be recognised by later binaries.
	if want != "fbfa3ff60ecd04e3bd6882119eaea31ce194a20bc98a7bca0056f239ba98b321" {
		t.Errorf("digest has changed: %s", want)
	}
}
