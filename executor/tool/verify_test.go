package tool

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/turnfold/turnfold/subjects/effect"
)

const verified = `
tools:
  - name: pay
    effect: once
    identity: "*"
    parameters: {type: object, properties: {order: {type: string}}}
    run: {http: {url: "http://127.0.0.1:1/pay"}}
    verify: %s
`

func verifierOf(t *testing.T, how string) *Verifier {
	t.Helper()
	all, err := NewVerifiers(parse(t, fmt.Sprintf(verified, how)), RunnerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = all["pay"].Close() })
	return all["pay"]
}

// A yes is a 2xx, with what must be found in it; everything else proves nothing.
func TestVerifyHTTP(t *testing.T) {
	var method, path, key, body string
	status, text := 200, `{"refund":{"id":"r-1"}}`
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		method, path, key, body = r.Method, r.URL.Path, r.Header.Get(KeyHeaderDefault), string(data)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}))
	defer srv.Close()
	v := verifierOf(t, fmt.Sprintf(`{http: {url: "%s/refunds/{key}"}, found: /refund, for: 2h}`, srv.URL))
	ask := func() Answer {
		return v.Ask(context.Background(), Call{Key: "tfk1_x", Args: `{"order":"1"}`, Timeout: 1})
	}
	if a := ask(); !a.Yes || a.Body != text {
		t.Errorf("answer %+v", a)
	}
	if method != "GET" || path != "/refunds/tfk1_x" || key != "tfk1_x" || body != "" || v.For != 2*time.Hour {
		t.Errorf("asked %s %s with %q, %q for %s", method, path, key, body, v.For)
	}
	for _, c := range []struct {
		status int
		text   string
	}{{404, text}, {500, text}, {302, text}, {200, `{}`}, {200, `{"refund":null}`}, {200, `{"refund":false}`},
		{200, `{"refund":[]}`}, {200, `{"refund":0}`}, {200, "no JSON"}, {204, ""}} {
		if status, text = c.status, c.text; status == 204 {
			text = ""
		}
		if a := ask(); a.Yes || a.Why == "" {
			t.Errorf("%d %s: answer %+v", c.status, c.text, a)
		}
	}
	post := verifierOf(t, fmt.Sprintf(`{http: {url: "%s/find", method: POST}}`, srv.URL))
	status, text = 204, ""
	if a := post.Ask(context.Background(), Call{Key: "tfk1_x", Args: `{"order":"1"}`}); !a.Yes || method != "POST" || body != `{"order":"1"}` {
		t.Errorf("answer %+v to %s %s", a, method, body)
	}
}

func TestVerifyCommand(t *testing.T) {
	v := verifierOf(t, `{command: {argv: [sh, -c, 'test "$TURNFOLD_KEY" = tfk1_known && echo done']}}`)
	if a := v.Ask(context.Background(), Call{Key: "tfk1_known"}); !a.Yes || strings.TrimSpace(a.Body) != "done" {
		t.Errorf("answer %+v", a)
	}
	if a := v.Ask(context.Background(), Call{Key: "tfk1_other"}); a.Yes {
		t.Errorf("answer %+v", a)
	}
}

// What means nothing, or would merge effects that are two, is refused with its reason.
func TestScopeFaults(t *testing.T) {
	const one = `
tools:
  - name: pay
    effect: %s
    identity: "*"
    parameters: {type: object, properties: {order: {type: string}}}
    run: {http: {url: "http://127.0.0.1:1/pay"}}
    %s
`
	for _, c := range []struct{ class, more, want string }{
		{"keyed", "window: 24h", "means nothing within a turn"},
		{"keyed", "scope: tenant", "without a window"},
		{"keyed", "scope: conversation\n    repeat: per_step", "repeat: per_step counts within one turn"},
		{"read", "scope: conversation", "a read is never one effect"},
		{"keyed", "scope: planet", "planet"},
		{"keyed", "approval_timeout: 1h", "needs no approval"},
		{"read", "verify: {http: {url: 'http://127.0.0.1:1/'}}", "nothing of it is ever in doubt"},
		{"once", "verify: {found: /x}", "says no way to run"},
		{"once", "verify: {http: {url: 'http://127.0.0.1:1/{id}'}}", "{id} stands for nothing"},
		{"once", "verify: {http: {url: 'http://127.0.0.1:1/', colour: x}}", "colour"},
		{"once", "concurrency: 0", "concurrency"},
	} {
		_, err := Parse("tools.yaml", fmt.Appendf(nil, one, c.class, c.more))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %s: %v; want %q", c.class, c.more, err, c.want)
		}
	}
	set := parse(t, fmt.Sprintf(one, "keyed", "scope: tenant\n    window: 24h\n    concurrency: 3\n    approval: always\n    approval_timeout: 1h"))
	d, _ := set.Get("pay")
	if d.Scope != effect.ScopeTenant || d.Window != 24*time.Hour || d.Concurrency != 3 || d.ApprovalTimeout != time.Hour {
		t.Errorf("declaration %+v", d)
	}
	changes := Compare(parse(t, fmt.Sprintf(one, "keyed", "")), set)
	if len(changes) != 4 || changes[2].What != "scope" || !changes[2].Keys {
		t.Errorf("changes %v", changes)
	}
}
