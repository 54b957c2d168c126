package reducer

import (
	"fmt"
	"math"
	"strconv"

	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/jet"
)

// Headers of every OUT message. They make the last message of the stream the whole
// record of how far its owner got, so a takeover needs no snapshot.
const (
	HeaderIn     = "Tf-In"     // sequence of the input on EV
	HeaderIndex  = "Tf-Ix"     // index among that input's outputs; absent: all of them are out
	HeaderDigest = "Tf-Digest" // of the input: EV may have lost it and stored another at its sequence
	HeaderChain  = "Tf-Chain"  // links every event of the turn up to the input (fold.State.Chain)
	HeaderEpoch  = "Tf-Epoch"  // rewinds of the partition before this message
	HeaderRewind = "Tf-Rewind" // the message is part of a rewind: "open" until "done"
)

// position is how far a partition's outputs are written.
type position struct {
	in     uint64 // 0 = nothing yet
	index  int    // last output of that input that is written
	whole  bool   // all outputs of that input are written
	digest string
	chain  string // of the message's turn
	epoch  uint64
	rewind string
}

// Digest names an event by its subject and bytes.
func Digest(subject string, data []byte) string { return event.SumOf(subject, data).String() }

func readPosition(m jet.Msg) (position, error) {
	var pos position
	var err error
	if pos.in, err = number(m.Header[HeaderIn]); err != nil {
		return pos, fmt.Errorf("output %d has no %s: it was not written by a turnfold reducer", m.Seq, HeaderIn)
	}
	if ix, ok := m.Header[HeaderIndex]; !ok {
		pos.whole = true
	} else if index, err := number(ix); err == nil && index <= math.MaxInt32 {
		pos.index = int(index)
	} else {
		return pos, fmt.Errorf("output %d has %s %q", m.Seq, HeaderIndex, ix)
	}
	pos.digest, pos.chain, pos.rewind = m.Header[HeaderDigest], m.Header[HeaderChain], m.Header[HeaderRewind]
	if e := m.Header[HeaderEpoch]; e != "" {
		if pos.epoch, err = number(e); err != nil {
			return pos, fmt.Errorf("output %d has %s %q", m.Seq, HeaderEpoch, e)
		}
	}
	return pos, nil
}

// number reads what header spells, and nothing else: leading zeros are of somebody else.
func number(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err == nil && len(text) > 1 && text[0] == '0' {
		err = strconv.ErrSyntax
	}
	return n, err
}

func (p position) header() map[string]string {
	h := map[string]string{HeaderIn: strconv.FormatUint(p.in, 10)}
	if !p.whole {
		h[HeaderIndex] = strconv.Itoa(p.index)
	}
	if p.digest != "" {
		h[HeaderDigest] = p.digest
	}
	if p.chain != "" {
		h[HeaderChain] = p.chain
	}
	if p.epoch > 0 {
		h[HeaderEpoch] = strconv.FormatUint(p.epoch, 10)
	}
	if p.rewind != "" {
		h[HeaderRewind] = p.rewind
	}
	return h
}

// Stamp is what an output's headers say of where it comes from, for audits.
type Stamp struct {
	In     uint64
	Index  int
	Whole  bool // no single output: a note of the owner
	Digest string
	Chain  string // empty on logs of owners that did not write it yet
	Epoch  uint64
	Rewind bool // part of a rewind
}

// ReadStamp reads the headers of an OUT message.
func ReadStamp(m jet.Msg) (Stamp, error) {
	p, err := readPosition(m)
	return Stamp{In: p.in, Index: p.index, Whole: p.whole, Digest: p.digest, Chain: p.chain, Epoch: p.epoch, Rewind: p.rewind != ""}, err
}
