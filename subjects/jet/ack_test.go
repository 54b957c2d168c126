package jet

import (
	"bytes"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
)

// What the server may say of one message.
func TestReadAck(t *testing.T) {
	for _, c := range []struct {
		name, data, status string
		seq                uint64
		err                error // what it comes to for the caller; nil: stored
	}{
		{"as it is", `{"stream":"TF_FX_1", "seq":7}`, "", 7, nil},
		{"spelt otherwise", `{"seq":7,"stream":"TF_FX_1"}`, "", 7, nil},
		{"with more", `{"stream":"TF_FX_1", "seq":7,"domain":"hub","duplicate":true}`, "", 7, nil},
		{"of a batch", `{"stream":"TF_FX_1","seq":7,"batch":"x","count":2}`, "", 7, nil},
		{"an error behind", `{"stream":"TF_FX_1","seq":0,"error":{"code":400,"err_code":10071}}`, "", 0, ErrConflict},
		{"a name that is escaped", `{"stream":"TF\"_1","seq":7}`, "", 7, nil},
		{"a very late one", `{"stream":"TF_FX_1", "seq":18446744073709551615}`, "", 1<<64 - 1, nil},
		{"another is there", `{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 3"},"stream":"TF_FX_1","seq":0}`, "", 0, ErrConflict},
		{"another is on its way", `{"error":{"code":400,"err_code":10164,"description":"wrong last sequence"}}`, "", 0, ErrConflict},
		{"full", `{"error":{"code":400,"err_code":10077,"description":"maximum bytes exceeded"}}`, "", 0, ErrFull},
		{"not here", `{"error":{"code":503,"err_code":10008,"description":"unavailable"}}`, "", 0, ErrUnclear},
		{"nobody listens", "", "503", 0, ErrUnclear},
		{"of no stream", `{"seq":7}`, "", 0, ErrUnclear},
		{"cut", `{"stream":"TF_FX_1", "seq":7`, "", 0, ErrUnclear},
		{"too many digits", `{"stream":"TF_FX_1", "seq":18446744073709551616}`, "", 0, ErrUnclear},
		{"nothing", "", "", 0, ErrUnclear},
	} {
		a := readAck(&nats.Msg{Data: []byte(c.data), Header: nats.Header{"Status": {c.status}}})
		if a.seq != c.seq || c.err == nil && a.err != nil || c.err != nil && !errors.Is(classify(a.err), c.err) {
			t.Errorf("%s: %d, %v; want %d, %v", c.name, a.seq, a.err, c.seq, c.err)
		}
	}
}

// A report is stored behind its body; one whose body never can be is stored all the same.
func TestAppendReport(t *testing.T) {
	_, c := single(t)
	between := false
	seq, lost, err := c.AppendReport(t.Context(), 0, "k", "x", []byte("body"), []byte("fact"), func() { between = true })
	if lost != nil || err != nil || !between {
		t.Fatal(lost, err, between)
	}
	body, ok, err := c.Body(t.Context(), 0, "k", "x")
	if !ok || err != nil || string(body) != "body" {
		t.Errorf("body %q, %v, %v", body, ok, err)
	}
	facts, last, err := c.FactsOf(t.Context(), 0, "k")
	if err != nil || len(facts) != 1 || string(facts[0].Data) != "fact" || last != seq || seq != 2 {
		t.Errorf("facts %+v at %d, %d, %v", facts, last, seq, err)
	}
	large := bytes.Repeat([]byte("x"), int(c.nc.MaxPayload())+1)
	if seq, lost, err = c.AppendReport(t.Context(), 0, "k", "y", large, []byte("fact"), func() {}); !errors.Is(lost, ErrRejected) || err != nil || seq != 3 {
		t.Errorf("a body that is too large: %v, %d, %v", lost, seq, err)
	}
	if n := len(c.acks.waiting); n != 0 {
		t.Errorf("%d answers are still waited for", n)
	}
}
