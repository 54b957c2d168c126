// Package archive keeps turns in files beyond the log's age, and puts them back.
//
// Invariants: a file that has its name is whole and on the disk; an archive whose
// manifest does not say that it is complete is taken for nothing; a deployment into
// which turns are put back serves nobody until every one of them is there and proven.
package archive

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/turnfold/turnfold/reducer/audit"
	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/jet"
)

// Suffix is that of a turn's file: a bundle of one turn, compressed.
const Suffix = ".ndjson.zst"

// noteEvery is how often the manifest is written while an archive grows, so that a run
// that is cut off has little to do again.
const noteEvery = 10 * time.Second

// Options say what to archive, and how.
type Options struct {
	// Turns names turns. If it is empty, all that were opened in [Since, Until) are
	// taken; a zero time is no bound.
	Turns        []subjects.Turn
	Since, Until time.Time
	Binary       string
	Key          ed25519.PrivateKey // signs every bundle, if set
	// Done is told of every turn, from one goroutine; Progress of the reading.
	Done     func(Entry, Result)
	Progress func(Report)
}

// Result is what became of a turn in a run.
type Result string

// The results of archiving one turn.
const (
	Written Result = "written"
	Had     Result = "had"    // by an earlier run, unchanged since
	Open    Result = "open"   // it has not ended; a later run takes it
	Erased  Result = "erased" // there is nothing to keep
)

// Report is what a run has done so far.
type Report struct {
	Deployment string `json:"deployment"`
	Found      int    `json:"found"` // turns to look at
	Written    int    `json:"written"`
	Had        int    `json:"had"`
	Open       int    `json:"open"`
	Erased     int    `json:"erased"`
	Bytes      int64  `json:"bytes"` // written, compressed
	Complete   bool   `json:"complete"`
}

// Run archives turns of a log into dir, a file each. What an earlier run has written and
// has not changed since is left alone, so a run that was cut off is simply run again.
func Run(ctx context.Context, log audit.Log, dir string, o Options) (Report, error) {
	r := &run{log: log, dir: dir, o: o, reader: turns.NewReader(log.Conn, log.Partitions)}
	var err error
	if r.report.Deployment, err = log.Deployment(ctx); err != nil {
		return r.report, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return r.report, fmt.Errorf("archive: %w", err)
	}
	unlock, err := lock(dir)
	if err != nil {
		return r.report, err
	}
	defer unlock()
	if r.m, err = ReadManifest(dir); errors.Is(err, os.ErrNotExist) {
		r.m, err = &Manifest{Head: ManifestHead{Deployment: r.report.Deployment, Partitions: log.Partitions}, Entries: map[string]Entry{}}, nil
	}
	if err != nil {
		return r.report, err
	}
	if r.m.Head.Deployment != r.report.Deployment {
		return r.report, fmt.Errorf("archive %s: %w: it is of deployment %s, this is %s; use another folder",
			dir, audit.ErrForeign, r.m.Head.Deployment, r.report.Deployment)
	}
	sweepParts(dir)
	return r.report, r.all(ctx)
}

type run struct {
	log    audit.Log
	dir    string
	o      Options
	reader *turns.Reader
	m      *Manifest
	noted  time.Time
	report Report
}

func (r *run) all(ctx context.Context) error {
	list := r.o.Turns
	if len(list) == 0 {
		var err error
		if list, err = r.opened(ctx); err != nil {
			return fmt.Errorf("archive: %w", err)
		}
	}
	r.report.Found = len(list)
	r.noted = time.Now()
	// A run of a few named turns does not end a larger one that was cut off.
	complete := r.m.Head.Complete || len(r.m.Entries) == 0 || len(r.o.Turns) == 0
	if r.m.Head.Complete {
		r.m.Head.Complete = false
		if err := r.m.write(r.dir, r.o.Binary); err != nil {
			return err
		}
	}
	for _, t := range list {
		e, result, err := r.one(ctx, t)
		if err != nil {
			_ = r.m.write(r.dir, r.o.Binary) // what is there need not be written again
			return fmt.Errorf("archive %s: %w", t, err)
		}
		r.count(e, result)
		if time.Since(r.noted) > noteEvery {
			if err := r.m.write(r.dir, r.o.Binary); err != nil {
				return err
			}
			r.noted = time.Now()
		}
	}
	r.m.Head.Complete = complete
	if err := r.m.write(r.dir, r.o.Binary); err != nil {
		return err
	}
	r.report.Complete = complete
	return nil
}

func (r *run) count(e Entry, result Result) {
	switch result {
	case Written:
		r.report.Written++
		r.report.Bytes += e.Bytes
	case Had:
		r.report.Had++
	case Open:
		r.report.Open++
	case Erased:
		r.report.Erased++
	}
	if r.o.Done != nil {
		r.o.Done(e, result)
	}
	if r.o.Progress != nil {
		r.o.Progress(r.report)
	}
}

// opened lists the turns that were opened in the time that is asked for.
func (r *run) opened(ctx context.Context) ([]subjects.Turn, error) {
	var list []subjects.Turn
	for p := range r.log.Partitions {
		stream := subjects.EventsStream(p)
		from := uint64(1)
		if !r.o.Since.IsZero() {
			var err error
			if from, err = r.log.Conn.SeqAt(ctx, stream, r.o.Since); err != nil {
				return nil, err
			}
			if from == 0 {
				continue
			}
		}
		err := r.log.Conn.Scan(ctx, stream, from, 0, func(m jet.Msg) error {
			if !r.o.Until.IsZero() && !m.Time.Before(r.o.Until) {
				return errLater
			}
			if b, err := event.Decode(m.Data); err != nil || b.Kind() != new(event.TurnOpened).Kind() {
				return nil // what is newer than this binary is refused when its turn is written
			}
			if _, t, err := subjects.ParseEvents(m.Subject); err == nil {
				list = append(list, t)
			}
			return nil
		})
		if err != nil && !errors.Is(err, errLater) {
			return nil, err
		}
	}
	return list, nil
}

var errLater = errors.New("later than asked for")

// one writes a turn's file, unless it is there as it would be written.
func (r *run) one(ctx context.Context, t subjects.Turn) (Entry, Result, error) {
	p := t.Partition(r.log.Partitions)
	last, ok, err := r.log.Conn.LastOf(ctx, subjects.EventsStream(p), subjects.Events(p, t))
	if err != nil {
		return Entry{}, "", err
	}
	if e, have := r.m.Entries[t.String()]; have && ok && e.Last == last.Seq {
		if info, err := os.Stat(filepath.Join(r.dir, e.File)); err == nil && info.Size() == e.Bytes {
			return e, Had, nil
		}
	}
	state, err := r.reader.Load(ctx, t, 0)
	switch {
	case err != nil:
		return Entry{}, "", err
	case state.Status == fold.Erased:
		return Entry{Turn: t.String()}, Erased, nil
	case state.Status == fold.Absent:
		return Entry{}, "", audit.ErrNoTurn
	case !state.Done():
		return Entry{Turn: t.String()}, Open, nil
	}
	e := Entry{Turn: t.String(), File: filepath.ToSlash(filepath.Join(t.Tenant, t.ID+Suffix)), Opened: state.Opened.At, Last: last.Seq}
	if err := r.export(ctx, t, &e); err != nil {
		return e, "", err
	}
	r.m.Entries[e.Turn] = e
	return e, Written, nil
}

func (r *run) export(ctx context.Context, t subjects.Turn, e *Entry) error {
	path := filepath.Join(r.dir, filepath.FromSlash(e.File))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	sum := newSum()
	err := WriteWhole(path, func(w io.Writer) error {
		z, err := zstd.NewWriter(io.MultiWriter(w, sum), zstd.WithEncoderConcurrency(1))
		if err != nil {
			return err
		}
		if err := r.log.Export(ctx, z, audit.Export{Turn: t, Binary: r.o.Binary, Key: r.o.Key}); err != nil {
			return errors.Join(err, z.Close())
		}
		return z.Close()
	})
	e.SHA256, e.Bytes = sum.hex(), sum.n
	return err
}

// Erase takes turns out of an archive: first out of its manifest, then the files. What a
// crash leaves of that is a file that no manifest names, which the next Erase or Run
// removes. It says how many there were.
func Erase(dir string, list []subjects.Turn, binary string) (int, error) {
	unlock, err := lock(dir)
	if err != nil {
		return 0, err
	}
	defer unlock()
	m, err := ReadManifest(dir)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, t := range list {
		if _, ok := m.Entries[t.String()]; ok {
			delete(m.Entries, t.String())
			n++
		}
	}
	if n > 0 {
		if err := m.write(dir, binary); err != nil {
			return 0, err
		}
	}
	sweepParts(dir)
	var errs []error
	for _, t := range list {
		path := filepath.Join(dir, t.Tenant, t.ID+Suffix)
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
		errs = append(errs, syncDir(filepath.Dir(path)))
	}
	return n, errors.Join(errs...)
}

// sweepParts removes what runs that were killed have left.
func sweepParts(dir string) {
	found, _ := filepath.Glob(filepath.Join(dir, "*", "*"+partMark+"*")) // a bad pattern only
	top, _ := filepath.Glob(filepath.Join(dir, "*"+partMark+"*"))
	for _, path := range slices.Concat(found, top) {
		if strings.Contains(filepath.Base(path), partMark) {
			_ = os.Remove(path) // it is of no harm
		}
	}
}
