package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Msg is a stored message, or one of Listen (without Seq and Time).
type Msg struct {
	Seq     uint64
	Subject string
	Header  map[string]string // nil if it has none
	Data    []byte
	Time    time.Time // when the log stored it
}

// First reports whether the log itself has proven, by the compare-and-set that stored it,
// that no message of the same subject was there before this one. False says nothing.
func (m Msg) First() bool {
	_, other := m.Header[jetstream.ExpectedLastSubjSeqSubjHeader]
	return m.Header[jetstream.ExpectedLastSubjSeqHeader] == "0" && !other
}

// StreamState is what a stream holds.
type StreamState struct {
	FirstSeq, LastSeq, Msgs, Bytes uint64
	Created                        time.Time
	Now                            time.Time // when the leader said so, by its clock
}

func toHeader(h map[string]string) nats.Header {
	out := make(nats.Header, len(h)+1)
	for k, v := range h {
		out[k] = []string{v}
	}
	return out
}

func fromHeader(h nats.Header) map[string]string {
	if len(h) == 0 {
		return nil
	}
	out := make(map[string]string, len(h))
	for k, v := range h {
		if len(v) > 0 {
			out[k] = v[0]
		}
	}
	return out
}

// lookTry is how long one try of a question without side effects may take. A stream
// whose leader has just gone does not answer at all.
const (
	lookTry  = time.Second
	lookWait = 50 * time.Millisecond
)

// look asks until an answer comes, at most for the connection's timeout; it is for
// questions that change nothing.
func (c *Conn) look(ctx context.Context, subject string, in, out any) error {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	for {
		err := c.request(ctx, subject, in, out, lookTry)
		var api *apiError
		if err == nil || errors.As(err, &api) && api.Code < 500 {
			return err
		}
		if c.ctx.Err() != nil {
			return ErrClosed
		}
		if sleep(ctx, lookWait) != nil {
			return errors.Join(err, ctx.Err())
		}
	}
}

// request asks the server's API once and decodes the answer into out. An error member
// of the answer comes back as *apiError.
func (c *Conn) request(ctx context.Context, subject string, in, out any, timeout time.Duration) error {
	ctx, cancel := c.linked(ctx, timeout)
	defer cancel()
	var raw []byte
	if in != nil {
		var err error
		if raw, err = json.Marshal(in); err != nil {
			return err
		}
	}
	answer, err := c.nc.RequestWithContext(ctx, "$JS.API."+subject, raw)
	if err != nil {
		return err
	}
	var failed struct {
		Error *apiError `json:"error"`
	}
	if err := json.Unmarshal(answer.Data, &failed); err != nil {
		return fmt.Errorf("answer of %s: %w", subject, err)
	}
	if failed.Error != nil {
		return failed.Error
	}
	return json.Unmarshal(answer.Data, out)
}

// getRequest asks a stream's leader for one message.
type getRequest struct {
	Seq     uint64 `json:"seq,omitempty"`
	LastFor string `json:"last_by_subj,omitempty"`
	NextFor string `json:"next_by_subj,omitempty"` // at or after Seq
}

// get asks the leader; direct gets may be answered by a replica that lags.
func (c *Conn) get(ctx context.Context, stream string, req getRequest) (Msg, bool, error) {
	var answer struct {
		Message struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Header  []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	err := c.look(ctx, "STREAM.MSG.GET."+stream, req, &answer)
	var api *apiError
	if errors.As(err, &api) && api.ErrCode == codeNoMessage {
		return Msg{}, false, nil
	}
	if err != nil {
		return Msg{}, false, err
	}
	m := answer.Message
	h, err := nats.DecodeHeadersMsg(m.Header)
	if len(m.Header) > 0 && err != nil {
		return Msg{}, false, fmt.Errorf("headers of message %d: %w", m.Seq, err)
	}
	return Msg{Seq: m.Seq, Subject: m.Subject, Header: fromHeader(h), Data: m.Data, Time: m.Time}, true, nil
}

// LastOf is the last message of a subject, wildcards allowed, as the stream's leader
// knows it; false if there is none.
func (c *Conn) LastOf(ctx context.Context, stream, subject string) (Msg, bool, error) {
	m, ok, err := c.get(ctx, stream, getRequest{LastFor: subject})
	if err != nil {
		return Msg{}, false, fmt.Errorf("last of %s in %s: %w", subject, stream, err)
	}
	return m, ok, nil
}

// Get is the message at seq, as the stream's leader knows it; false if there is none.
func (c *Conn) Get(ctx context.Context, stream string, seq uint64) (Msg, bool, error) {
	if seq == 0 {
		return Msg{}, false, nil
	}
	m, ok, err := c.get(ctx, stream, getRequest{Seq: seq})
	if err != nil {
		return Msg{}, false, fmt.Errorf("get %d of %s: %w", seq, stream, err)
	}
	return m, ok, nil
}

// State is what the stream's leader knows of the stream.
func (c *Conn) State(ctx context.Context, stream string) (StreamState, error) {
	var answer struct {
		Created time.Time `json:"created"`
		Now     time.Time `json:"ts"`
		State   struct {
			First uint64 `json:"first_seq"`
			Last  uint64 `json:"last_seq"`
			Msgs  uint64 `json:"messages"`
			Bytes uint64 `json:"bytes"`
		} `json:"state"`
	}
	if err := c.look(ctx, "STREAM.INFO."+stream, nil, &answer); err != nil {
		return StreamState{}, fmt.Errorf("state of %s: %w", stream, err)
	}
	s := answer.State
	return StreamState{FirstSeq: s.First, LastSeq: s.Last, Msgs: s.Msgs, Bytes: s.Bytes, Created: answer.Created, Now: answer.Now}, nil
}

// delivery is what a consumer's delivery says of itself in its reply subject.
type delivery struct {
	delivered, seq, consumerSeq, pending uint64
	time                                 time.Time
}

// parseDelivery reads $JS.ACK.<stream>.<consumer>.<delivered>.<seq>.<consumer seq>.
// <time>.<pending>, also with a domain and an account hash after ACK and a token at
// the end (the second version of the subject).
func parseDelivery(reply string) (delivery, error) {
	var room [deliveryParts]string // this is done for every message of every tail
	part := room[:0]
	for rest, more := reply, true; more && len(part) < len(room); {
		var one string
		one, rest, more = strings.Cut(rest, ".")
		part = append(part, one)
	}
	skip := 0
	if len(part) >= 11 {
		skip = 2
	}
	if len(part) < 9 || part[0] != "$JS" || part[1] != "ACK" {
		return delivery{}, fmt.Errorf("jet: not a delivery: %q", reply)
	}
	var n [5]uint64
	for i := range n {
		v, err := strconv.ParseUint(part[4+skip+i], 10, 64)
		if err != nil {
			return delivery{}, fmt.Errorf("jet: not a delivery: %q", reply)
		}
		n[i] = v
	}
	return delivery{delivered: n[0], seq: n[1], consumerSeq: n[2], time: time.Unix(0, int64(n[3])).UTC(), pending: n[4]}, nil
}

// deliveryParts is the most that a delivery's reply subject is made of.
const deliveryParts = 12

func fromDelivery(m *nats.Msg, d delivery) Msg {
	return Msg{Seq: d.seq, Subject: m.Subject, Header: fromHeader(m.Header), Data: m.Data, Time: d.time}
}

// directHeaders are what a direct get adds to a message.
var directHeaders = []string{
	jetstream.StreamHeader, jetstream.SequenceHeader, jetstream.TimeStampHeaer, jetstream.SubjectHeader,
	"Nats-Num-Pending", "Nats-Last-Sequence", "Nats-UpTo-Sequence",
}

func fromDirect(m *jetstream.RawStreamMsg) Msg {
	h := maps.Clone(m.Header)
	for _, k := range directHeaders {
		delete(h, k)
	}
	return Msg{Seq: m.Sequence, Subject: m.Subject, Header: fromHeader(h), Data: m.Data, Time: m.Time}
}
