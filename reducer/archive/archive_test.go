package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/rs/zerolog"

	"github.com/turnfold/turnfold/reducer/audit"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/embed"
	"github.com/turnfold/turnfold/subjects/jet"
)

// golden is where the recorded bundles of every version are, and the broken ones.
const golden = "../audit/testdata/golden"

func compressed(t *testing.T, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out)
	if err == nil {
		_, err = z.Write(text)
	}
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func fileOf(t *testing.T, data []byte) Source {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bundle")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return Source{Path: path}
}

// host is a server with nothing on it.
func host(t *testing.T) *jet.Conn {
	t.Helper()
	srv, err := embed.Start(embed.Config{StoreDir: t.TempDir(), Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	c, err := jet.Connect(t.Context(), jet.Config{URL: srv.URL(), User: srv.User(), Password: srv.Password(), Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func restore(t *testing.T, c *jet.Conn, partitions int, list ...Source) (Restored, error) {
	t.Helper()
	return Restore{Conn: c, Layout: subjects.Layout{Partitions: partitions, Replicas: 1}, SpoolDir: t.TempDir(),
		Workers: func(p int) []jet.WorkConfig {
			return []jet.WorkConfig{{Stream: subjects.OutputsStream(p), Durable: "d", Filter: subjects.OutLane(p, subjects.LaneCall)}}
		}}.Run(t.Context(), list)
}

// TestRestoreGolden: recorded histories of every version can be put back, and audit
// clean where they are then.
func TestRestoreGolden(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(golden, "v*.ndjson"))
	if err != nil || len(files) < 3 {
		t.Fatalf("recorded histories: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			b, err := audit.NewReader(bytes.NewReader(raw))
			if err != nil {
				t.Fatal(err)
			}
			c := host(t)
			done, err := restore(t, c, b.Head.Partitions, fileOf(t, compressed(t, raw)), Source{Path: file})
			if err != nil || done.Turns == 0 || done.Bundles != 2 {
				t.Fatalf("%+v, %v", done, err)
			}
			report, err := audit.Log{Conn: c, Partitions: b.Head.Partitions}.All(t.Context(), audit.Scan{Settled: true})
			if err != nil || !report.OK || int(report.Turns) != done.Turns {
				t.Errorf("audit: %+v, %v", report, err)
			}
			var again bytes.Buffer
			if err := (audit.Log{Conn: c, Partitions: b.Head.Partitions}).Export(t.Context(), &again, audit.Export{}); err != nil {
				t.Fatal(err)
			}
			if e, err := audit.Verify(bytes.NewReader(again.Bytes()), true, nil); err != nil || !e.Report.OK {
				t.Errorf("exported again: %+v, %v", e.Report, err)
			}
			// A worker of the commands gets none of those that were put back.
			for p := range b.Head.Partitions {
				if n := waiting(t, c, p); n != 0 {
					t.Errorf("partition %d hands out %d commands again", p, n)
				}
			}
		})
	}
}

// waiting counts the commands that a worker gets before one that is new.
func waiting(t *testing.T, c *jet.Conn, p int) int {
	t.Helper()
	subject := subjects.Out(p, subjects.Turn{Tenant: "t", ID: "new"}, subjects.LaneCall)
	if _, err := c.Publish(t.Context(), subject, nil, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	err := c.Work(ctx, jet.WorkConfig{Stream: subjects.OutputsStream(p), Durable: "d", Filter: subjects.OutLane(p, subjects.LaneCall), InFlight: 1},
		func(d jet.Delivery) {
			if d.Subject == subject {
				cancel()
			} else {
				n++
			}
			_ = d.Ack()
		})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestHostile: nothing of a hostile or broken file is put back, the error says what is
// wrong with it, and reading it takes bounded memory.
func TestHostile(t *testing.T) {
	whole, err := os.ReadFile(filepath.Join(golden, "v1-demo-loop.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	packed := compressed(t, whole)
	type bad struct{ name, says, file string }
	var list []bad
	add := func(name, says string, data []byte) { list = append(list, bad{name, says, fileOf(t, data).Path}) }
	for file, says := range map[string]string{"newer-format": "newer than this binary", "newer-event": "newer than this binary", "truncated": "cut off",
		"foreign": "foreign", "duplicate": "duplicate", "deep": "depth", "unknown-member": "unknown", "tail": "follows the manifest"} {
		raw, err := os.ReadFile(filepath.Join(golden, "bad-"+file+".ndjson"))
		if err != nil {
			t.Fatal(err)
		}
		add(file, says, raw)
		add(file+", compressed", says, compressed(t, raw))
	}
	add("empty", "cut off", nil)
	add("cut inside its compression", "EOF", packed[:len(packed)/2])
	add("bytes after its end", "follows the manifest", append(packed[:len(packed):len(packed)], "more"...))
	add("another whole bundle after its end", "follows the manifest", append(packed[:len(packed):len(packed)], packed...))
	add("no bundle", "no line of a bundle", []byte("#!/bin/sh\nexit\n"))
	add("a window of 512 MiB", "window", window(t, whole))
	add("a line of 1 GiB", "longer than", line(t, 1<<30))
	add("a turn without its outputs", "does not hold", head(t, whole, false))
	add("an open turn", ErrOpen.Error(), head(t, whole, true))
	c := host(t)
	partitions := 4
	for _, x := range list {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := restore(t, c, partitions, Source{Path: x.file})
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: %v", x.name, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 512<<20 {
			t.Errorf("%s: %d MiB were allocated", x.name, took>>20)
		}
		if _, err := c.State(t.Context(), subjects.EventsStream(0)); err == nil {
			t.Fatalf("%s: it has left a stream", x.name)
		}
	}
}

// window compresses such that reading it back takes a window of 512 MiB.
func window(t *testing.T, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out, zstd.WithWindowSize(512<<20), zstd.WithSingleSegment(false))
	if err == nil {
		_, err = io.Copy(z, io.MultiReader(bytes.NewReader(text), io.LimitReader(zeros{}, 32<<20)))
	}
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// line compresses one line of so many bytes.
func line(t *testing.T, n int64) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out)
	if err == nil {
		_, err = io.Copy(z, io.LimitReader(zeros{}, n))
	}
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = '0'
	}
	return len(b), nil
}

// head is the bundle of a turn's opening, with or without what followed from it, closed
// as its writer would have done: nothing is wrong with it but where it ends.
func head(t *testing.T, text []byte, outputs bool) []byte {
	t.Helper()
	r, err := audit.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w, err := audit.NewWriter(&out, r.Head)
	if err != nil {
		t.Fatal(err)
	}
	for events := 0; ; {
		stream, m, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(stream, "TF_FX_") || strings.HasPrefix(stream, "TF_OUT_") && !outputs {
			continue
		}
		if strings.HasPrefix(stream, "TF_EV_") {
			events++
		}
		if events > 1 {
			break
		}
		if err := w.Add(stream, m); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(nil); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestManifest: a manifest is read as it was written, and no other text is one.
func TestManifest(t *testing.T) {
	dir := t.TempDir()
	m := &Manifest{Head: ManifestHead{Deployment: "d", Partitions: 4, Complete: true}, Entries: map[string]Entry{}}
	for n := range 3 {
		name := fmt.Sprintf("t/x%d", n)
		m.Entries[name] = Entry{Turn: name, File: name + Suffix, SHA256: hex.EncodeToString(make([]byte, 32)), Bytes: 5, Last: uint64(n)}
	}
	if err := m.write(dir, "test"); err != nil {
		t.Fatal(err)
	}
	got, err := ReadManifest(dir)
	if err != nil || len(got.Entries) != 3 || got.Entries["t/x2"] != m.Entries["t/x2"] || got.Head != m.Head {
		t.Fatalf("%+v, %v", got, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, ManifestName))
	if err != nil {
		t.Fatal(err)
	}
	for cutAt := range len(text) {
		if _, err := readManifest(bytes.NewReader(text[:cutAt])); err == nil {
			t.Fatalf("cut at %d of %d it is taken for whole", cutAt, len(text))
		}
	}
	for at := range text {
		changed := bytes.Clone(text)
		changed[at] ^= 1
		if _, err := readManifest(bytes.NewReader(changed)); err == nil {
			t.Fatalf("changed at %d it is taken for whole", at)
		}
	}
	for entry, says := range map[string]string{
		`{"turn":"t/x","file":"../../etc/passwd","sha256":"","bytes":1,"opened":"","last":1}`:          "the file of t/x",
		`{"turn":"t/x","turn":"t/y","file":"t/x.ndjson.zst"}`:                                          "duplicate",
		`{"turn":"../x","file":"../x.ndjson.zst"}`:                                                     "bad id",
		strings.Repeat("[", 100_000):                                                                   "longer than",
		`{"turn":` + strings.Repeat("[", 60_000) + `}`:                                                 "depth",
		`{"turn":"t/x","file":"t/x.ndjson.zst","from_the_future":true}`:                                "unknown",
		string(bytes.Split(text, []byte("\n"))[1]) + "\n" + string(bytes.Split(text, []byte("\n"))[1]): "twice",
	} {
		body := string(bytes.Split(text, []byte("\n"))[0]) + "\n" + entry + "\n"
		sum := sha256.Sum256([]byte(body))
		body += fmt.Sprintf("{\"turns\":1,\"sha256\":%q}\n", hex.EncodeToString(sum[:]))
		if _, err := readManifest(strings.NewReader(body)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.60s: %v", entry, err)
		}
	}
}
