package audit

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/turnfold/turnfold/reducer"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/jet"
)

// Evidence is what a bundle proves.
type Evidence struct {
	Report   Report
	Head     Head
	Manifest Manifest
	Key      []byte // of the signer, if any
}

// Verify audits a bundle with nothing but the bundle. An error says that it is not
// whole, not ours, or newer; a Report that is not OK, that what it holds is wrong.
//
// Settled: nothing was under way when the bundle was made, so what is due and has not
// been said is missing.
func Verify(r io.Reader, settled bool, each func(Verdict)) (Evidence, error) {
	b, err := NewReader(r)
	if err != nil {
		return Evidence{}, err
	}
	v := &verifying{bundle: b, facts: NewFacts(), parts: make([]*Partition, b.Head.Partitions), each: each}
	for p := range v.parts {
		v.parts[p] = &Partition{Number: p, Notes: &Notes{}, Facts: v.facts, From: b.Head.From[p].EV,
			Each: v.verdict, Settled: settled, Excerpt: b.Head.Turn != ""}
		v.parts[p].init()
	}
	for {
		stream, m, err := b.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = v.take(stream, m)
		}
		if err != nil {
			return Evidence{}, err
		}
	}
	v.close()
	return Evidence{Report: v.report, Head: b.Head, Manifest: b.Manifest, Key: b.Key}, nil
}

type verifying struct {
	bundle *Reader
	facts  *Facts
	parts  []*Partition
	report Report
	each   func(Verdict)
}

func (v *verifying) verdict(x Verdict) {
	v.report.Turns++
	v.report.UnderWay += uint64(x.UnderWay)
	switch {
	case !x.OK:
		v.report.Mismatches++
	case x.Status == statusErased:
		v.report.Erased++
	}
	if v.each != nil {
		v.each(x)
	}
}

// take gives a message to whom it concerns. Its stream must be the one that holds its
// subject: what a bundle says of a place is checked, not believed.
func (v *verifying) take(stream string, m jet.Msg) error {
	for p, part := range v.parts {
		switch stream {
		case subjects.EffectsStream(p):
			return v.facts.Add(p, m)
		case subjects.EventsStream(p):
			if !strings.HasPrefix(m.Subject, fmt.Sprintf("tf.ev.%d.", p)) {
				return broken(v.bundle.Line(), "%s does not hold %s", stream, m.Subject)
			}
			return part.Event(m)
		case subjects.OutputsStream(p):
			if m.Subject == subjects.OutPosition(p) && part.Events == 0 && part.Outputs == 0 && !part.noted(m.Seq) {
				return part.Notes.Add(m)
			}
			stamp, err := reducer.ReadStamp(m)
			part.Output(m, stamp, err)
			return nil
		}
	}
	return broken(v.bundle.Line(), "there is no stream %s in a deployment of %d partitions", stream, len(v.parts))
}

// noted reports whether a note was taken in before: notes come twice, first for
// whoever reads on, and then at their place.
func (p *Partition) noted(seq uint64) bool {
	if seq <= p.lastNote {
		return true
	}
	p.lastNote = seq
	return false
}

func (v *verifying) close() {
	for p, part := range v.parts {
		for _, c := range part.Close() {
			v.report.Partitions = append(v.report.Partitions, PartitionCheck{p, c})
		}
		v.report.Before += part.Before
		v.report.Events += part.Events
		v.report.Outputs += part.Outputs
	}
	for _, c := range v.facts.bad {
		v.report.Partitions = append(v.report.Partitions, PartitionCheck{0, c})
	}
	v.report.Facts = v.facts.Count
	for _, part := range v.parts {
		for name, t := range part.Notes.Erased {
			v.facts.buried(name, t.Calls)
		}
	}
	if v.bundle.Head.Since == "" {
		for _, o := range v.facts.orphans() {
			if turn := v.bundle.Head.Turn; turn != "" && o.turn != v.facts.hash(turn) {
				continue // of another turn, with which this one shares a key
			}
			if rewoundAny(v.parts) || restoredAny(v.parts) {
				v.report.Unasked++
				continue
			}
			v.report.Partitions = append(v.report.Partitions, PartitionCheck{o.part,
				Check{ID: "I5", Stream: streamFX, Seq: o.seq, Detail: "no finished attempt asked for this effect"}})
		}
	}
	v.report.OK = v.report.Mismatches == 0 && len(v.report.Partitions) == 0
}

// restoredAny reports whether the log was made of archives. Those have the facts of every
// key that one of their turns met, also those of turns that are not in them.
func restoredAny(parts []*Partition) bool {
	for _, p := range parts {
		if p != nil && p.Notes.Restored.Type != "" {
			return true
		}
	}
	return false
}

func rewoundAny(parts []*Partition) bool {
	for _, p := range parts {
		if len(p.Notes.Rewinds) > 0 {
			return true
		}
	}
	return false
}
