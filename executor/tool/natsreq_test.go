package tool

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/embed"
)

// natsPort is a Requester as the product has one, on a plain client.
type natsPort struct {
	nc     *nats.Conn
	closed bool
}

func (p *natsPort) Request(ctx context.Context, subject string, header map[string]string, data []byte) (Reply, error) {
	msg := nats.NewMsg(subject)
	for name, value := range header {
		msg.Header.Set(name, value)
	}
	msg.Data = data
	res, err := p.nc.RequestMsgWithContext(ctx, msg)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return Reply{}, ErrNoResponders
	case errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrMaxPayload):
		return Reply{}, errors.Join(ErrNotSent, err)
	case err != nil:
		return Reply{}, err
	}
	out := Reply{Header: map[string]string{}, Data: res.Data}
	for name := range res.Header {
		out.Header[name] = res.Header.Get(name)
	}
	return out, nil
}

func (p *natsPort) Close() error { p.closed = true; p.nc.Close(); return nil }

func connectNATS(t *testing.T) (*nats.Conn, *nats.Conn) {
	t.Helper()
	s, err := embed.Start(embed.Config{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	connect := func() *nats.Conn {
		nc, err := nats.Connect(s.URL(), nats.UserInfo(s.User(), s.Password()), nats.ReconnectBufSize(-1))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	return connect(), connect()
}

func natsTool(subject string) *Declaration {
	return &Declaration{Name: "refund", Effect: effect.Keyed, Timeout: 300 * time.Millisecond,
		Run: Run{NATS: &NATS{Subject: subject, Headers: map[string]string{"X-Team": "a"}}}}
}

func TestNATS(t *testing.T) {
	client, server := connectNATS(t)
	runs := make(chan micro.Request, 100)
	service, err := micro.AddService(server, micro.Config{Name: "refund", Version: "1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = service.Stop() })
	endpoint := func(name string, h func(r micro.Request)) {
		if err := service.AddEndpoint(name, micro.HandlerFunc(func(r micro.Request) { runs <- r; h(r) }), micro.WithEndpointSubject("svc."+name)); err != nil {
			t.Fatal(err)
		}
	}
	fail := func(code, text string, data string) func(micro.Request) {
		return func(r micro.Request) { _ = r.Error(code, text, []byte(data)) }
	}
	endpoint("ok", func(r micro.Request) { _ = r.Respond(r.Data()) })
	endpoint("silent", func(micro.Request) {})
	endpoint("e404", fail("404", "no such order", ""))
	endpoint("e422", fail("422", "no", `{"error":{"class":"no_order"}}`))
	endpoint("e409", fail("409", "at work", ""))
	endpoint("e500", fail("500", "oops", ""))
	endpoint("eword", fail("NOT_Found!", "oops", ""))
	if err := server.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		subject string
		outcome effect.Outcome
		class   string
		body    string
		ran     bool
	}{
		{"svc.ok", effect.Succeeded, "", aCall().Args, true},
		{"svc.silent", effect.Unknown, ClassTimeout, "", true},
		{"svc.nobody", effect.Failed, ClassConnection, "not run: nobody answers on the subject", false},
		{"svc.e404", effect.Failed, "service_404", "no such order", true},
		{"svc.e422", effect.Failed, "no_order", `{"error":{"class":"no_order"}}`, true},
		{"svc.e409", effect.Unknown, "service_409", "at work", true},
		{"svc.e500", effect.Unknown, "service_500", "oops", true},
		{"svc.eword", effect.Unknown, "service_not_found", "oops", true},
	} {
		t.Run(c.subject, func(t *testing.T) {
			before := len(runs)
			got := newRunner(t, natsTool(c.subject), RunnerConfig{Requester: &natsPort{nc: client}}).Run(t.Context(), aCall())
			check(t, got, c.outcome, c.class, c.ran)
			if got.Body != c.body {
				t.Errorf("body %q, want %q", got.Body, c.body)
			}
			if n := len(runs) - before; c.ran && n != 1 {
				t.Errorf("asked %d times", n)
			}
		})
	}
	first := <-runs
	for name, want := range map[string]string{"Idempotency-Key": "tfk1_k", "Turnfold-Turn": "t1", "Turnfold-Step": "1",
		"Turnfold-Attempt": "2", "Turnfold-Call": "1.0", "X-Team": "a"} {
		if v := nats.Header(first.Headers()).Get(name); v != want {
			t.Errorf("%s: %q, want %q", name, v, want)
		}
	}
}

func TestNATSEnds(t *testing.T) {
	client, server := connectNATS(t)
	sub, err := server.SubscribeSync("svc.silent")
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Flush(); err != nil {
		t.Fatal(err)
	}
	r := newRunner(t, natsTool("svc.silent"), RunnerConfig{Requester: &natsPort{nc: client}})
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(30*time.Millisecond, func() { cancel(ErrInterrupted) })
	check(t, r.Run(ctx, aCall()), effect.Unknown, ClassInterrupted, true)
	check(t, r.Run(ctx, aCall()), effect.Failed, ClassInterrupted, false)
	if n, _, _ := sub.Pending(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	client.Close()
	check(t, r.Run(t.Context(), aCall()), effect.Failed, ClassConnection, false)
}

func TestNATSOwnConnection(t *testing.T) {
	client, _ := connectNATS(t)
	port := &natsPort{nc: client}
	d := natsTool("svc.x")
	if _, err := NewRunner(d, RunnerConfig{}); err == nil || !strings.Contains(err.Error(), "tool refund: run.nats needs the deployment's connection") {
		t.Errorf("no connection: %v", err)
	}
	d.Run.NATS.URL, d.Run.NATS.Creds = "nats://other:4222", "/c"
	if _, err := NewRunner(d, RunnerConfig{}); err == nil {
		t.Error("dialled without a dialler")
	}
	r, err := NewRunner(d, RunnerConfig{DialNATS: func(url, creds string) (Requester, error) {
		if url != "nats://other:4222" || creds != "/c" {
			t.Errorf("dialled %s with %s", url, creds)
		}
		return port, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.(*natsRunner).Close(); err != nil || !port.closed {
		t.Errorf("closed %v: %v", port.closed, err)
	}
}
