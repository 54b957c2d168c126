package jet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
)

// The server's fast-ingest protocol (ADR-50 of nats-architecture-and-design): a
// batch is a series of publishes whose reply subject is
//
//	<inbox>.<batch>.<flow>.<gap mode>.<number in the batch>.<operation>.$FI
//
// With gap mode "fail" the server stores a prefix of the batch in order, or refuses
// the rest: this is what makes order certain over lost messages and leader changes.
// It is spoken here directly, because the client library's publisher (jetstreamext
// v0.3.2) waits a round trip for the first message, shows an error only after a
// timeout, cannot tell whether one message is stored without ending the batch, and
// has wrong numbers for the errors.
const (
	opStart  = "0"
	opAppend = "1"
	opEnd    = "3" // ends the batch without a message
	opPing   = "4"
)

// batchFlow is how many messages the server may store without telling. One costs an
// answer per message, and makes Flush a matter of waiting.
const batchFlow = "1"

// batch is one fast-ingest batch, of one connection and stream.
type batch struct {
	id      string
	prefix  string // of its reply subjects
	subject string // of its first message; pings and the end are sent there
	base    uint64 // the writer's number of the message before its first
	sent    uint64 // messages sent in it
	ending  bool   // the end was sent
}

func newBatch(inbox, id string, base uint64) *batch {
	return &batch{id: id, prefix: inbox + "." + id + "." + batchFlow + ".fail.", base: base}
}

func (b *batch) reply(n uint64, op string) string {
	return b.prefix + strconv.FormatUint(n, 10) + "." + op + ".$FI"
}

// send publishes the batch's next message.
func (b *batch) send(nc *nats.Conn, subject string, h nats.Header, data []byte) error {
	op := opAppend
	if b.sent == 0 {
		op, b.subject = opStart, subject
	}
	m := nats.Msg{Subject: subject, Reply: b.reply(b.sent+1, op), Header: h, Data: data}
	if err := nc.PublishMsg(&m); err != nil {
		return err
	}
	b.sent++
	return nil
}

// ping has the server tell what it has stored, and find out what was lost.
func (b *batch) ping(nc *nats.Conn) error {
	return nc.PublishRequest(b.subject, b.reply(b.sent, opPing), nil)
}

// end lets the server forget the batch.
func (b *batch) end(nc *nats.Conn) error {
	b.ending = true
	return nc.PublishRequest(b.subject, b.reply(b.sent+1, opEnd), nil)
}

// batchAnswer is what the server says of a batch.
type batchAnswer struct {
	batch  string
	stored uint64 // messages of the batch that are stored for sure
	over   bool   // the batch has ended; stored is final unless the number is missing
	err    error  // why it cannot go on
}

var errBatchGap = errors.New("messages were lost on the way")

// parseAnswer reads a flow message, a gap or error notice, the final answer, or the
// notice that nobody receives the subject.
func parseAnswer(inbox string, m *nats.Msg) (batchAnswer, error) {
	rest, ok := strings.CutPrefix(m.Subject, inbox+".")
	id, _, ok2 := strings.Cut(rest, ".")
	if !ok || !ok2 {
		return batchAnswer{}, fmt.Errorf("jet: not an answer to a batch: %q", m.Subject)
	}
	a := batchAnswer{batch: id}
	if len(m.Data) == 0 {
		if m.Header.Get("Status") != "503" {
			return a, fmt.Errorf("jet: empty answer to a batch")
		}
		a.err = nats.ErrNoResponders
		return a, nil
	}
	if seq, ok := parseAck(m.Data); ok {
		a.stored = seq
		return a, nil
	}
	var body struct {
		Type  string    `json:"type"`
		Seq   uint64    `json:"seq"`
		Count uint64    `json:"count"`
		Error *apiError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &body); err != nil {
		return a, fmt.Errorf("jet: answer to a batch: %w", err)
	}
	switch body.Type {
	case "ack":
		a.stored = body.Seq
	case "gap":
		a.err = errBatchGap
	case "err":
		a.err = errors.New("unknown error")
		if body.Error != nil {
			a.err = body.Error
		}
	default:
		a.over, a.stored = true, body.Count
		if body.Error != nil {
			a.err = body.Error
		}
	}
	return a, nil
}

// parseAck reads the server's word on a message that is stored, which comes for each of
// them: decoding it as any JSON would cost as much as sending the message. Another
// spelling is no fault; it takes the long way.
func parseAck(data []byte) (seq uint64, ok bool) {
	rest, ok := bytes.CutPrefix(data, []byte(`{"type":"ack","seq":`))
	if !ok {
		return 0, false
	}
	n := 0
	for ; n < len(rest) && n < 19 && rest[n] >= '0' && rest[n] <= '9'; n++ {
		seq = seq*10 + uint64(rest[n]-'0')
	}
	return seq, n > 0 && n < len(rest) && (rest[n] == ',' || rest[n] == '}')
}
