package provider

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/turnfold/turnfold/streamer/provider/providertest"
	"github.com/turnfold/turnfold/subjects/event"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plain is a dialect for tests: each event's data is text, END finishes.
type plain struct{ header http.Header }

func (plain) Name() string { return "plain" }

func (p plain) Encode(ep Endpoint, req Request) (*Wire, error) {
	if req.Model == "bad" {
		return nil, errors.New("bad model")
	}
	return &Wire{Method: "POST", URL: ep.BaseURL + "/ask", Header: p.header, Body: []byte("question")}, nil
}

func (plain) NewDecoder() Decoder { return new(plainDecoder) }

type plainDecoder struct{ whole bool }

func (d *plainDecoder) Event(_ string, data []byte, emit func(event.Body) error) (bool, error) {
	if string(data) == "END" {
		d.whole = true
		return true, nil
	}
	return false, emit(&event.TextDelta{Text: string(data)})
}

func (d *plainDecoder) End(broken error) event.Body {
	if d.whole {
		return &event.AttemptFinished{Finish: "END"}
	}
	return Failed(broken)
}

func (d *plainDecoder) Status(status int, h http.Header, body []byte) *event.AttemptFailed {
	class, retryable := Classify(status)
	return &event.AttemptFailed{Class: class, Retryable: retryable, RetryAfterMS: RetryAfter(h), Detail: string(body)}
}

func try(ctx context.Context, url string, ep Endpoint, emit func(event.Body) error) event.Body {
	ep.BaseURL = url
	if emit == nil {
		emit = func(event.Body) error { return nil }
	}
	return NewRequester(Config{}).Attempt(ctx, plain{}, ep, Request{}, nil, emit)
}

func failed(t *testing.T, b event.Body) *event.AttemptFailed {
	t.Helper()
	f, ok := b.(*event.AttemptFailed)
	if !ok {
		t.Fatalf("ended with %#v, want a failure", b)
	}
	return f
}

func TestFinished(t *testing.T) {
	s := providertest.Start(t, providertest.Answer{Writes: [][]byte{[]byte("data: a\n\ndata: END\n\n")}, End: providertest.Hang,
		Header: map[string]string{"X-Request-Id": "req_1"}})
	var text string
	b := try(t.Context(), s.URL, Endpoint{Key: "k", Headers: map[string]string{"X-Org": "o", "Idempotency-Key": "i", "x-idempotency-key": "i"}},
		func(b event.Body) error { text += b.(*event.TextDelta).Text; return nil })
	f, ok := b.(*event.AttemptFinished)
	if !ok || text != "a" || f.RequestID != "req_1" {
		t.Fatalf("%q, %#v", text, b)
	}
	r := s.Requests()[0]
	if string(r.Body) != "question" || r.Header.Get("X-Org") != "o" || r.Header.Get("Accept-Encoding") != "" {
		t.Errorf("%+v", r)
	}
	for name := range r.Header {
		if strings.Contains(name, "Idempotency") {
			t.Errorf("header %s was sent", name)
		}
	}
}

// TestNoResend: a server that reads a request and closes before it answers sees that
// request once. Net/http would send it again on a reused connection if it could, so the
// test also takes away the first defence, the fresh connection.
func TestNoResend(t *testing.T) {
	whole := providertest.Body("data: END\n\n", providertest.Stay)
	for _, end := range []providertest.End{providertest.Cut, providertest.Reset} {
		t.Run(fmt.Sprintf("fresh, end %d", end), func(t *testing.T) {
			s := providertest.Start(t, whole, providertest.Answer{Status: -1, End: end}, whole)
			try(t.Context(), s.URL, Endpoint{}, nil)
			if f := failed(t, try(t.Context(), s.URL, Endpoint{}, nil)); f.Class != event.Connection || !f.Retryable {
				t.Errorf("%+v", f)
			}
			if r := s.Requests(); len(r) != 2 || r[0].Conn == r[1].Conn {
				t.Errorf("%d requests for 2 attempts", len(r))
			}
		})
		t.Run(fmt.Sprintf("reused, end %d", end), func(t *testing.T) {
			s := providertest.Start(t, whole, providertest.Answer{Status: -1, End: end}, whole)
			tr := NewRequester(Config{}).transport(t.Context(), time.Second)
			tr.DisableKeepAlives = false
			defer tr.CloseIdleConnections()
			send := func() error {
				req, err := new(attempt).request(t.Context(), &Wire{Method: "POST", URL: s.URL, Body: []byte("question")})
				if err != nil {
					t.Fatal(err)
				}
				resp, err := tr.RoundTrip(req)
				if err == nil {
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				return err
			}
			if err := send(); err != nil {
				t.Fatal(err)
			}
			if send() == nil {
				t.Error("the closed connection gave an answer")
			}
			if r := s.Requests(); len(r) != 2 || r[0].Conn != r[1].Conn {
				t.Errorf("%d requests for 2 round trips", len(r))
			}
		})
	}
}

func TestNoRedirect(t *testing.T) {
	s := providertest.Start(t, providertest.Answer{Status: 307, Header: map[string]string{"Location": "/elsewhere"}})
	f := failed(t, try(t.Context(), s.URL, Endpoint{}, nil))
	if f.Class != event.InvalidRequest || f.Status != 307 || len(s.Requests()) != 1 {
		t.Errorf("%+v", f)
	}
}

func TestNoHTTP2(t *testing.T) {
	var proto string
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proto = r.Proto
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: END\n\n")
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	r := NewRequester(Config{TLS: &tls.Config{RootCAs: roots}})
	b := r.Attempt(t.Context(), plain{}, Endpoint{BaseURL: s.URL}, Request{}, nil, func(event.Body) error { return nil })
	if _, ok := b.(*event.AttemptFinished); !ok || proto != "HTTP/1.1" {
		t.Errorf("%#v over %s", b, proto)
	}
}

func TestDeadlines(t *testing.T) {
	const short = 100 * time.Millisecond
	hole, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never speaks TLS
	if err != nil {
		t.Fatal(err)
	}
	defer hole.Close()
	slow := providertest.Answer{End: providertest.Hang, Before: func(int) { time.Sleep(short / 4) }}
	for range 100 {
		slow.Writes = append(slow.Writes, []byte("data: a\n\n"))
	}
	for _, c := range []struct {
		name   string
		url    string
		answer providertest.Answer
		ep     Endpoint
		class  event.Class
	}{
		{"connect", "https://" + hole.Addr().String(), providertest.Answer{}, Endpoint{ConnectTimeout: short}, event.Connection},
		{"header", "", providertest.Answer{Status: -1, End: providertest.Hang}, Endpoint{HeaderTimeout: short}, event.Timeout},
		{"stall before any event", "", providertest.Answer{End: providertest.Hang}, Endpoint{StallTimeout: short}, event.Stall},
		{"stall after an event", "", providertest.Body("data: a\n\n", providertest.Hang), Endpoint{StallTimeout: short}, event.Stall},
		{"total", "", slow, Endpoint{TotalTimeout: 3 * short}, event.Timeout},
		{"body of an error", "", providertest.Answer{Status: 503, End: providertest.Hang}, Endpoint{HeaderTimeout: short}, event.ServerError},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.url == "" {
				c.url = providertest.Start(t, c.answer).URL
			}
			began := time.Now()
			f := failed(t, try(t.Context(), c.url, c.ep, nil))
			if f.Class != c.class || !f.Retryable || time.Since(began) > 20*time.Second {
				t.Errorf("%+v after %s", f, time.Since(began))
			}
		})
	}
}

// TestSlowReader: time spent in emit is not the provider's.
func TestSlowReader(t *testing.T) {
	s := providertest.Start(t, providertest.Body("data: a\n\ndata: END\n\n", providertest.Clean))
	b := try(t.Context(), s.URL, Endpoint{StallTimeout: 500 * time.Millisecond}, func(event.Body) error {
		time.Sleep(1200 * time.Millisecond)
		return nil
	})
	if _, ok := b.(*event.AttemptFinished); !ok {
		t.Errorf("%#v", b)
	}
}

// TestCancel: wherever the attempt is, the end of its context closes the socket at once.
func TestCancel(t *testing.T) {
	for name, a := range map[string]providertest.Answer{
		"before the header": {Status: -1, End: providertest.Hang},
		"mid-stream":        providertest.Body("data: a\n\n", providertest.Hang),
	} {
		t.Run(name, func(t *testing.T) {
			s := providertest.Start(t, a)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(50*time.Millisecond, cancel)
			f := failed(t, try(ctx, s.URL, Endpoint{}, nil))
			if f.Class != event.Cancelled || f.Retryable {
				t.Errorf("%+v", f)
			}
			select {
			case <-s.ClientClosed:
			case <-time.After(time.Minute):
				t.Error("the socket is open")
			}
		})
	}
	t.Run("before the start", func(t *testing.T) {
		s := providertest.Start(t, providertest.Answer{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		f := failed(t, try(ctx, s.URL, Endpoint{}, nil))
		if f.Class != event.Cancelled || len(s.Requests()) != 0 {
			t.Errorf("%+v", f)
		}
	})
}

// TestEmitFails: a piece that was not stored leaves a gap, so the attempt has failed.
func TestEmitFails(t *testing.T) {
	s := providertest.Start(t, providertest.Body("data: a\n\ndata: END\n\n", providertest.Clean))
	f := failed(t, try(t.Context(), s.URL, Endpoint{}, func(event.Body) error { return errors.New("full") }))
	if f.Class != event.Lost || !f.Retryable {
		t.Errorf("%+v", f)
	}
}

func TestProgress(t *testing.T) {
	s := providertest.Start(t, providertest.Body("data: a\n\n: ping\n\ndata:\n\ndata: b\n\ndata: END\n\n", providertest.Clean))
	n := 0
	NewRequester(Config{}).Attempt(t.Context(), plain{}, Endpoint{BaseURL: s.URL}, Request{}, func() { n++ }, func(event.Body) error { return nil })
	if n != 2 {
		t.Errorf("progress %d times", n)
	}
}

// TestDetail: what people read holds no secret, no argument and no second line.
func TestDetail(t *testing.T) {
	const key, token, args = "sk-secret", "header-token", `{"card":"4111"}`
	body := "bad key " + key + "\nand Bearer " + token + " in " + args + " " + strings.Repeat("é", 400)
	s := providertest.Start(t, providertest.Answer{Status: 401, Writes: [][]byte{[]byte(body)}, Header: map[string]string{"request-id": "r " + key}})
	b := NewRequester(Config{}).Attempt(t.Context(), plain{}, Endpoint{BaseURL: s.URL, Key: key, Headers: map[string]string{"X-Auth": "Bearer " + token}},
		Request{Messages: []Message{{Role: "assistant", Parts: []Part{{Call: &Call{Args: args}}}}}}, nil, nil)
	f := failed(t, b)
	said := f.Detail + f.RequestID
	if f.Class != event.Auth || len(f.Detail) > 300 || strings.ContainsAny(said, "\n\r") {
		t.Errorf("%+v", f)
	}
	for _, secret := range []string{key, token, args} {
		if strings.Contains(said, secret) {
			t.Errorf("%q is in %q", secret, said)
		}
	}
	f = failed(t, NewRequester(Config{}).Attempt(t.Context(), plain{}, Endpoint{}, Request{Model: "bad"}, nil, nil))
	if f.Class != event.InvalidRequest || f.Retryable {
		t.Errorf("%+v", f)
	}
	f = failed(t, try(t.Context(), "http://127.0.0.1:1/?key="+key, Endpoint{}, nil))
	if f.Class != event.Connection || strings.Contains(f.Detail, key) {
		t.Errorf("%+v", f)
	}
}

// TestUndeclaredStream: the content type is not believed blindly, in both directions.
func TestUndeclaredStream(t *testing.T) {
	for body, isStream := range map[string]bool{"data: END\n\n": true, ": ping\n\ndata: END\n\n": true, `{"error":"x"}`: false, "<html>": false, "[1]": false} {
		s := providertest.Start(t, providertest.Answer{Writes: [][]byte{[]byte(body)}, Header: map[string]string{"Content-Type": "application/json"}})
		_, finished := try(t.Context(), s.URL, Endpoint{}, nil).(*event.AttemptFinished)
		if finished != isStream {
			t.Errorf("%q: finished %v", body, finished)
		}
	}
}
