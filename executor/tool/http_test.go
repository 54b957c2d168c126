package tool

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/turnfold/turnfold/subjects/effect"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv("MCP_TEST_SERVER"); mode != "" {
		os.Exit(serveStdio(mode))
	}
	goleak.VerifyTestMain(m)
}

func newRunner(t *testing.T, d *Declaration, cfg RunnerConfig) Runner {
	t.Helper()
	r, err := NewRunner(d, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if c, ok := r.(io.Closer); ok {
		t.Cleanup(func() { _ = c.Close() })
	}
	return r
}

func httpTool(url string) *Declaration {
	return &Declaration{Name: "issue_refund", Effect: effect.Keyed, Timeout: 5 * time.Second, Run: Run{HTTP: &HTTP{URL: url}}}
}

func aCall() Call {
	return Call{Tenant: "acme", Turn: "t1", Call: "1.0", Tool: "issue_refund", Key: "tfk1_k", Step: 1, Attempt: 2,
		Args: `{"order_id": "ORD-1",  "amount":49.00}`}
}

// serve starts a server whose handler gets the number of the request, from 1.
func serve(t *testing.T, handle func(n int, w http.ResponseWriter, r *http.Request, body string)) (url string, requests func() int) {
	t.Helper()
	var mu sync.Mutex
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		n++
		mine := n
		mu.Unlock()
		handle(mine, w, r, string(body))
	}))
	t.Cleanup(s.Close)
	return s.URL, func() int { mu.Lock(); defer mu.Unlock(); return n }
}

func check(t *testing.T, got Result, outcome effect.Outcome, class string, ran bool) {
	t.Helper()
	if got.Outcome != outcome || got.ErrorClass != class || got.Ran != ran {
		t.Errorf("got %s class %q ran %v (%s), want %s class %q ran %v", got.Outcome, got.ErrorClass, got.Ran, got.Detail, outcome, class, ran)
	}
}

func TestHTTPRequest(t *testing.T) {
	var got *http.Request
	var sent string
	url, _ := serve(t, func(n int, w http.ResponseWriter, r *http.Request, body string) {
		got, sent = r, body
		_, _ = io.WriteString(w, `{"refund":"RF-1"}`)
	})
	secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte("0123456789012345678901234567890"))
	d := httpTool(url + "/refund?shop=1")
	d.Run.HTTP.Headers = map[string]string{"X-Team": "a"}
	d.Run.HTTP.HeadersEnv = map[string]string{"Authorization": "AUTH"}
	d.Run.HTTP.SecretEnv = "SECRET"
	vars := map[string]string{"AUTH": "Bearer x", "SECRET": secret}
	r := newRunner(t, d, RunnerConfig{Env: func(k string) (string, bool) { v, ok := vars[k]; return v, ok }})
	result := r.Run(t.Context(), aCall())
	check(t, result, effect.Succeeded, "", true)
	if result.Body != `{"refund":"RF-1"}` || sent != aCall().Args || got.Method != "POST" || got.URL.String() != "/refund?shop=1" {
		t.Errorf("body %q, sent %q to %s %s", result.Body, sent, got.Method, got.URL)
	}
	for name, want := range map[string]string{"Idempotency-Key": "tfk1_k", "Turnfold-Turn": "t1", "Turnfold-Step": "1", "Turnfold-Attempt": "2",
		"Turnfold-Call": "1.0", "Content-Type": "application/json", "X-Team": "a", "Authorization": "Bearer x", "Webhook-Id": "acme/t1/1-0"} {
		if v := got.Header.Get(name); v != want {
			t.Errorf("%s: %q, want %q", name, v, want)
		}
	}
	again := http.Header{}
	sign, err := newSigner(secret)
	if err != nil {
		t.Fatal(err)
	}
	var unix int64
	_, _ = fmt.Sscan(got.Header.Get("Webhook-Timestamp"), &unix)
	sign(again, "acme/t1/1-0", time.Unix(unix, 0), sent)
	if s := got.Header.Get("Webhook-Signature"); s != again.Get("Webhook-Signature") || !strings.HasPrefix(s, "v1,") || time.Since(time.Unix(unix, 0)) > time.Minute {
		t.Errorf("signature %q at %d", s, unix)
	}
	blank := aCall()
	blank.Args = " \n"
	if r.Run(t.Context(), blank); sent != "{}" {
		t.Errorf("blank arguments are sent as %q", sent)
	}
}

// TestSignature has the example of the Standard Webhooks specification.
func TestSignature(t *testing.T) {
	sign, err := newSigner("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	sign(h, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), `{"test": 2432232314}`)
	if got := h.Get("Webhook-Signature"); got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Errorf("got %s", got)
	}
	for _, bad := range []string{"", "abc", "whsec_!!", "whsec_YWJj"} {
		if _, err := newSigner(bad); err == nil || bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestHTTPStatus(t *testing.T) {
	for _, c := range []struct {
		status  int
		body    string
		outcome effect.Outcome
		class   string
	}{
		{200, "", effect.Succeeded, ""},
		{204, "", effect.Succeeded, ""},
		{202, "x", effect.Succeeded, ""},
		{400, `{"error":{"class":"bad_order"}}`, effect.Failed, "bad_order"},
		{403, `{"error":{"class":7}}`, effect.Failed, "http_403"},
		{404, `{"error":"gone"}`, effect.Failed, "http_404"},
		{422, `not json`, effect.Failed, "http_422"},
		{500, `{"error":{"class":"db"}}`, effect.Unknown, "db"},
		{503, "", effect.Unknown, "http_503"},
		{302, "", effect.Unknown, "http_302"},
		{303, "", effect.Unknown, "http_303"},
		{307, "", effect.Failed, "http_307"},
	} {
		t.Run(fmt.Sprint(c.status), func(t *testing.T) {
			url, requests := serve(t, func(n int, w http.ResponseWriter, r *http.Request, _ string) {
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			got := newRunner(t, httpTool(url), RunnerConfig{}).Run(t.Context(), aCall())
			check(t, got, c.outcome, c.class, true)
			if c.body != "" && got.Body != c.body {
				t.Errorf("body %q", got.Body)
			}
			if requests() != 1 {
				t.Errorf("%d requests", requests())
			}
		})
	}
}

func TestHTTPNotNow(t *testing.T) {
	for _, c := range []struct {
		name     string
		answers  []int // the last one repeats
		after    string
		timeout  time.Duration
		outcome  effect.Outcome
		class    string
		requests int // 0 = several
	}{
		{"resolves", []int{409, 425, 408, 429, 200}, "", 5 * time.Second, effect.Succeeded, "", 5},
		{"resolves to a failure", []int{409, 404}, "", 5 * time.Second, effect.Failed, "http_404", 2},
		{"too many to the end", []int{429}, "", 200 * time.Millisecond, effect.Failed, "http_429", 0},
		{"too early to the end", []int{425}, "", 200 * time.Millisecond, effect.Failed, "http_425", 0},
		{"in flight to the end", []int{409}, "", 200 * time.Millisecond, effect.Unknown, "http_409", 0},
		{"in flight once", []int{408, 429}, "", 200 * time.Millisecond, effect.Unknown, "http_429", 0},
		{"asks for more time than there is", []int{429}, "60", 5 * time.Second, effect.Failed, "http_429", 1},
		{"asks for a second", []int{429, 200}, "1", 5 * time.Second, effect.Succeeded, "", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var keys sync.Map
			url, requests := serve(t, func(n int, w http.ResponseWriter, r *http.Request, _ string) {
				keys.Store(r.Header.Get("Idempotency-Key"), true)
				if c.after != "" {
					w.Header().Set("Retry-After", c.after)
				}
				w.WriteHeader(c.answers[min(n, len(c.answers))-1])
			})
			call := aCall()
			call.Timeout = c.timeout
			began := time.Now()
			got := newRunner(t, httpTool(url), RunnerConfig{Backoff: time.Millisecond}).Run(t.Context(), call)
			check(t, got, c.outcome, c.class, true)
			if n := requests(); c.requests != 0 && n != c.requests || c.requests == 0 && n < 2 {
				t.Errorf("%d requests", n)
			}
			if c.after == "1" && time.Since(began) < time.Second {
				t.Error("did not wait as asked")
			}
			if c.after == "60" && time.Since(began) > 30*time.Second {
				t.Error("waited for nothing")
			}
			keys.Range(func(k, _ any) bool {
				if k != "tfk1_k" {
					t.Errorf("key %v", k)
				}
				return true
			})
		})
	}
}

// rawServer hands each connection to handle, which reads requests and answers as it likes.
func rawServer(t *testing.T, handle func(conn net.Conn, nth int)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 1; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { defer conn.Close(); handle(conn, n) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return "http://" + l.Addr().String()
}

func TestOneRequestOnReusedConnection(t *testing.T) {
	var mu sync.Mutex
	seen, conns := 0, 0
	url := rawServer(t, func(conn net.Conn, nth int) {
		mu.Lock()
		conns++
		mu.Unlock()
		in := bufio.NewReader(conn)
		for {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			mu.Lock()
			seen++
			n := seen
			mu.Unlock()
			if n == 2 {
				return // read in full, and then the connection is gone
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	r := newRunner(t, httpTool(url), RunnerConfig{})
	check(t, r.Run(t.Context(), aCall()), effect.Succeeded, "", true)
	check(t, r.Run(t.Context(), aCall()), effect.Unknown, ClassConnection, true)
	mu.Lock()
	defer mu.Unlock()
	if seen != 2 || conns != 1 {
		t.Errorf("%d requests on %d connections, want 2 on 1", seen, conns)
	}
}

func TestOnceToolsTakeFreshConnections(t *testing.T) {
	var mu sync.Mutex
	conns := 0
	url := rawServer(t, func(conn net.Conn, nth int) {
		mu.Lock()
		conns++
		mu.Unlock()
		if req, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			_, _ = io.Copy(io.Discard, req.Body)
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	d := httpTool(url)
	d.Effect = effect.Once
	r := newRunner(t, d, RunnerConfig{})
	for range 3 {
		check(t, r.Run(t.Context(), aCall()), effect.Succeeded, "", true)
	}
	mu.Lock()
	defer mu.Unlock()
	if conns != 3 {
		t.Errorf("%d connections", conns)
	}
}

func TestHTTPLostAndUnsent(t *testing.T) {
	silent := func(release <-chan struct{}) func(net.Conn, int) {
		return func(conn net.Conn, _ int) {
			if req, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, _ = io.Copy(io.Discard, req.Body)
			}
			<-release
		}
	}
	t.Run("refused", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		got := newRunner(t, httpTool("http://"+l.Addr().String()), RunnerConfig{}).Run(t.Context(), aCall())
		check(t, got, effect.Failed, ClassConnection, false)
		if !strings.Contains(got.Body, "refused") {
			t.Errorf("body %q", got.Body)
		}
	})
	t.Run("no such host", func(t *testing.T) {
		got := newRunner(t, httpTool("http://nowhere.invalid/x?secret=1"), RunnerConfig{}).Run(t.Context(), aCall())
		check(t, got, effect.Failed, ClassConnection, false)
		if strings.Contains(got.Detail+got.Body, "secret") {
			t.Errorf("shows the address: %q", got.Detail)
		}
	})
	t.Run("no TLS there", func(t *testing.T) {
		url := rawServer(t, func(conn net.Conn, _ int) { _, _ = io.WriteString(conn, "HTTP/1.1 400 Bad\r\n\r\n") })
		got := newRunner(t, httpTool(strings.Replace(url, "http:", "https:", 1)), RunnerConfig{}).Run(t.Context(), aCall())
		check(t, got, effect.Failed, ClassConnection, false)
	})
	t.Run("timeout", func(t *testing.T) {
		release := make(chan struct{})
		url := rawServer(t, silent(release))
		defer close(release)
		call := aCall()
		call.Timeout = 100 * time.Millisecond
		check(t, newRunner(t, httpTool(url), RunnerConfig{}).Run(t.Context(), call), effect.Unknown, ClassTimeout, true)
	})
	t.Run("interrupted", func(t *testing.T) {
		release := make(chan struct{})
		ctx, cancel := context.WithCancelCause(t.Context())
		url := rawServer(t, func(conn net.Conn, n int) {
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				cancel(ErrInterrupted)
			}
			<-release
		})
		defer close(release)
		check(t, newRunner(t, httpTool(url), RunnerConfig{}).Run(ctx, aCall()), effect.Unknown, ClassInterrupted, true)
		check(t, newRunner(t, httpTool(url), RunnerConfig{}).Run(ctx, aCall()), effect.Failed, ClassInterrupted, false)
	})
	t.Run("answer breaks off", func(t *testing.T) {
		url := rawServer(t, func(conn net.Conn, _ int) {
			if req, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, _ = io.Copy(io.Discard, req.Body)
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"par")
			}
		})
		check(t, newRunner(t, httpTool(url), RunnerConfig{}).Run(t.Context(), aCall()), effect.Unknown, ClassConnection, true)
	})
	t.Run("in flight, then refused", func(t *testing.T) {
		var s *httptest.Server
		s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = s.Listener.Close()
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusConflict)
		}))
		defer s.Close()
		got := newRunner(t, httpTool(s.URL), RunnerConfig{Backoff: time.Millisecond}).Run(t.Context(), aCall())
		check(t, got, effect.Unknown, ClassConnection, true)
	})
}

func TestHTTPAnswerLimits(t *testing.T) {
	url, _ := serve(t, func(n int, w http.ResponseWriter, r *http.Request, _ string) {
		if n == 1 {
			_, _ = w.Write([]byte(strings.Repeat("x", answerBytesMax+1)))
			return
		}
		_, _ = w.Write([]byte{0xff, 0xfe, 'a'})
	})
	r := newRunner(t, httpTool(url), RunnerConfig{})
	got := r.Run(t.Context(), aCall())
	check(t, got, effect.Succeeded, "", true)
	if !strings.Contains(got.Body, "was dropped") || len(got.Body) > 200 {
		t.Errorf("over the limit: %.200q", got.Body)
	}
	got = r.Run(t.Context(), aCall())
	check(t, got, effect.Succeeded, "", true)
	if !strings.Contains(got.Body, base64.StdEncoding.EncodeToString([]byte{0xff, 0xfe, 'a'})) {
		t.Errorf("not UTF-8: %q", got.Body)
	}
}

func TestRunnerNeedsItsVariables(t *testing.T) {
	d := httpTool("http://a")
	d.Run.HTTP.SecretEnv = "SECRET"
	d.Run.HTTP.HeadersEnv = map[string]string{"Authorization": "AUTH"}
	_, err := NewRunner(d, RunnerConfig{Env: func(string) (string, bool) { return "", false }})
	want := "tool issue_refund: run.http.headers_env.Authorization: set the environment variable AUTH to a header value\n" +
		"tool issue_refund: run.http.secret_env: SECRET is not set; set it to whsec_ and the base64 of 24 to 64 random bytes"
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	if _, err := NewRunner(&Declaration{Name: "x"}, RunnerConfig{}); err == nil {
		t.Error("a tool without a way to run has a runner")
	}
}

// A date in Retry-After is the target's, and so is the clock that it is compared with.
func TestRetryAfterIsOfTheTargetsClock(t *testing.T) {
	for _, off := range []time.Duration{0, time.Hour, -time.Hour} {
		now := time.Now().Add(off)
		a := httpAnswer{header: http.Header{"Date": {now.UTC().Format(http.TimeFormat)},
			"Retry-After": {now.Add(40 * time.Second).UTC().Format(http.TimeFormat)}}}
		if wait := a.retryAfter(0); wait != 40*time.Second {
			t.Errorf("the target's clock is %s ahead: waits %s, want 40s", off, wait)
		}
	}
}
