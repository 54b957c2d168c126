package jet

import (
	"context"
	"slices"
	"testing"
	"time"
)

func (m *Membership) until(t *testing.T, what string, want ...string) time.Duration {
	t.Helper()
	began := time.Now()
	for {
		changed := m.Changed()
		if live, known := m.Live(); known && slices.Equal(live, want) {
			return time.Since(began)
		}
		select {
		case <-changed:
		case <-time.After(testWait / 4):
		}
		if time.Since(began) >= testWait/4 {
			live, known := m.Live()
			t.Fatalf("%s: sees %v (%v), want %v", what, live, known, want)
		}
	}
}

// TestMembership: who leaves is gone at once, who falls silent after the TTL and not
// before, and a server that is away makes nobody look dead.
func TestMembership(t *testing.T) {
	const ttl = time.Second
	h, c := single(t)
	join := func(c *Conn, name string) *Membership {
		return must(c.Join(MemberConfig{Role: "reducer", Instance: name, Incarnation: "1", TTL: ttl}))(t)
	}
	a := join(c, "a")
	b := join(h.connect(), "b")
	lost := h.connect()
	d := join(lost, "d")
	join(c, "other") // over the same connection: counts as any other
	for name, m := range map[string]*Membership{"a": a, "b": b, "d": d} {
		m.until(t, name, "a", "b", "d", "other")
	}
	d.Say("hello")
	for end := time.Now().Add(testWait); a.Notes()["d"] != "hello"; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("a sees the notes %v", a.Notes())
		}
	}
	if err := b.Leave(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if took := a.until(t, "b has left", "a", "d", "other"); took > ttl/3 {
		t.Errorf("a member that left was seen for %s", took)
	}

	before, _ := a.Live()
	h.srv.Shutdown()
	time.Sleep(2 * ttl) // nobody is heard
	if live, _ := a.Live(); !slices.Equal(live, before) {
		t.Errorf("with the server away, %v seem alive, before %v", live, before)
	}
	h.start()
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	_ = lost.Close(gone)
	took := a.until(t, "d fell silent", "a", "other")
	t.Logf("a silent member was seen for %s", took)
	if took < ttl/2 {
		t.Errorf("a member was given up after %s, TTL %s", took, ttl)
	}
}
