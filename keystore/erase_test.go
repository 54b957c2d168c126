package keystore

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/turnfold/turnfold/subjects/effect"
)

// secret is text that no compression hides, because nothing of it comes twice.
func secret() string {
	b := make([]byte, 24)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

func filesWith(t *testing.T, dir, text string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(text)) {
			out = append(out, filepath.Base(path))
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return filesWith(t, dir, text) // the library has replaced a file, perhaps by one that was not looked at
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestEraseLeavesNoByte: results of any size, details, commands and doubts of a call are
// in no file of the store any more, wherever the library had put them by then; what
// happened is still known, and so are the neighbours.
func TestEraseLeavesNoByte(t *testing.T) {
	for _, age := range []string{"in the log", "in tables", "long ago"} {
		t.Run(age, func(t *testing.T) {
			dir := t.TempDir()
			s := openDir(t, dir)
			ctx := context.Background()
			const call, other = "t/x/1.0", "t/y/1.0"
			secrets := []string{}
			hide := func() string { secrets = append(secrets, secret()); return secrets[len(secrets)-1] }
			put := func(key, token, call, body, detail, command string, o effect.Outcome) {
				t.Helper()
				if err := s.Intent(ctx, Intent{Key: key, Token: token, Call: call, Command: []byte(command)}); err != nil {
					t.Fatal(err)
				}
				rep := Report{Key: key, Token: token, Outcome: o, Detail: detail}
				if body != "" {
					rep.Body = []byte(body)
				}
				if err := s.Report(ctx, rep); err != nil {
					t.Fatal(err)
				}
			}
			big := func() string { return hide() + string(bytes.Repeat([]byte("."), 2*bodyInlineMax)) }
			put("k1", "a", call, hide(), "", hide(), effect.Succeeded)
			put("k2", "b", call, big(), hide(), hide(), effect.Succeeded)
			put("k3", "c", call, "", hide(), hide(), effect.Unknown)
			if err := s.KeepDoubt(ctx, Doubt{Key: "k3", Token: "c", Call: call, Command: []byte(hide())}); err != nil {
				t.Fatal(err)
			}
			if err := s.MarkSettled(ctx, []Settled{{"k1", "a", effect.Succeeded}}, nil); err != nil {
				t.Fatal(err)
			}
			public := secret()
			put("k1", "d", other, public, "", "", effect.Succeeded)
			digest := succeeded(t, s, "k2").BodyDigest
			if age != "in the log" {
				must(t, s.db.Flush())
			}
			if age == "long ago" {
				if _, err := s.Compact(ctx); err != nil {
					t.Fatal(err)
				}
				for n := range 20_000 {
					in := Intent{Key: fmt.Sprint("f", n), Token: "z", Call: other}
					if n%2000 == 0 {
						must(t, s.Intent(ctx, in))
						must(t, s.db.Flush())
					}
				}
			}
			if len(filesWith(t, dir, secrets[0])) == 0 && age != "long ago" {
				t.Fatal("the store's files do not show its content; the test shows nothing")
			}
			for range 2 { // again it changes nothing
				if err := s.Erase(ctx, []Call{{"k1", call}, {"k2", call}, {"k3", call}}); err != nil {
					t.Fatal(err)
				}
			}
			for n, x := range secrets {
				if found := filesWith(t, dir, x); len(found) > 0 {
					t.Errorf("secret %d is still in %v", n, found)
				}
			}
			check := func() {
				t.Helper()
				if rep := succeeded(t, s, "k2"); rep.Token != "b" || rep.Body != nil || rep.BodyDigest != digest || rep.Detail != "" {
					t.Errorf("of k2 it knows %+v", rep)
				}
				if f, ok, err := s.Reported("k2", "b"); f.Detail != "" || f.BodyDigest != digest || !ok || err != nil {
					t.Errorf("of k2 it would say %+v, %v %v", f, ok, err)
				}
				if body, ok, err := s.Body("k1", "d"); string(body) != public || !ok || err != nil {
					t.Errorf("the other turn's result is %q, %v %v", body, ok, err)
				}
				if _, ok, err := s.Body("k1", "a"); ok || err != nil {
					t.Errorf("the erased result: %v %v", ok, err)
				}
				if out, err := s.Outbox(); err != nil || len(out) != 3 {
					t.Errorf("to be published are %+v, %v", out, err)
				}
				if d, err := s.Doubts(); err != nil || len(d) != 0 {
					t.Errorf("in doubt are %+v, %v", d, err)
				}
			}
			check()
			must(t, s.Close())
			s = openDir(t, dir)
			check()
			must(t, s.Close())
		})
	}
}

// TestCheckpoint: a copy that is taken while the store is in use opens, and knows what
// was acknowledged before it.
func TestCheckpoint(t *testing.T) {
	s := openDir(t, t.TempDir())
	ctx := context.Background()
	must(t, s.Intent(ctx, Intent{Key: "k", Token: "a", Call: "t/x/1.0"}))
	must(t, s.Report(ctx, Report{Key: "k", Token: "a", Outcome: effect.Succeeded, Body: []byte("yes")}))
	copied := filepath.Join(t.TempDir(), "copy")
	must(t, s.Checkpoint(copied))
	must(t, s.Intent(ctx, Intent{Key: "k2", Token: "b", Call: "t/x/1.1"}))
	c := openDir(t, copied)
	if rep := succeeded(t, c, "k"); string(rep.Body) != "yes" {
		t.Errorf("the copy knows %+v", rep)
	}
	if facts, err := c.Facts("k2"); err != nil || len(facts) > 0 {
		t.Errorf("the copy knows what came after it: %+v, %v", facts, err)
	}
	must(t, c.Close())
	must(t, s.Close())
}

func openDir(t *testing.T, dir string) *Store {
	t.Helper()
	return open(t, dir, nil)
}

func succeeded(t *testing.T, s *Store, key string) Report {
	t.Helper()
	seen, err := s.Glance(key)
	if err != nil || seen.Success == nil {
		t.Fatalf("%s has not succeeded: %+v %v", key, seen, err)
	}
	return *seen.Success
}
