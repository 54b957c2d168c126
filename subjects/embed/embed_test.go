package embed_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/turnfold/turnfold/subjects/embed"
)

func start(t *testing.T, cfg embed.Config) *embed.Server {
	t.Helper()
	cfg.Log = zerolog.Nop()
	s, err := embed.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	return s
}

func dial(t *testing.T, s *embed.Server, user, password string) (*nats.Conn, error) {
	t.Helper()
	nc, err := nats.Connect(s.URL(), nats.UserInfo(user, password))
	if err == nil {
		t.Cleanup(nc.Close)
	}
	return nc, err
}

func TestStartIsFastAndLocal(t *testing.T) {
	var s *embed.Server
	best := time.Hour // of a few: the machine may be busy with something else
	for range 5 {
		begin := time.Now()
		s = start(t, embed.Config{StoreDir: t.TempDir()})
		best = min(best, time.Since(begin))
	}
	if best > time.Second {
		t.Errorf("start took %s, want under a second", best)
	}
	if !strings.Contains(s.URL(), "127.0.0.1") {
		t.Errorf("listens on %s, want loopback", s.URL())
	}
	if _, err := dial(t, s, s.User(), s.Password()); err != nil {
		t.Errorf("own credentials are refused: %v", err)
	}
	if _, err := dial(t, s, s.User(), "wrong"); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("wrong password gives %v, want refusal", err)
	}
	if nc, err := nats.Connect(s.URL()); err == nil {
		nc.Close()
		t.Error("no credentials are accepted")
	}
}

// A client keeps its URL and credentials over a restart, and what was stored stays.
func TestCredentialsAreKeptAndPrivate(t *testing.T) {
	dir := t.TempDir()
	first := start(t, embed.Config{StoreDir: dir})
	user, password, port := first.User(), first.Password(), first.Port()
	info, err := os.Stat(filepath.Join(dir, "nats-credentials.json"))
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("credentials have mode %o, want 600", mode)
	}
	if hint := first.CredentialsHint(); !strings.Contains(hint, "sub") || strings.Contains(hint, password) {
		t.Errorf("hint %q should show how to subscribe, without the password", hint)
	}
	first.Shutdown()
	first.Shutdown() // does nothing
	second := start(t, embed.Config{StoreDir: dir, Port: port})
	if second.User() != user || second.Password() != password || second.Port() != port {
		t.Error("credentials or port changed over a restart")
	}
}

func TestSecondServerIsRefused(t *testing.T) {
	dir := t.TempDir()
	first := start(t, embed.Config{StoreDir: dir})
	_, err := embed.Start(embed.Config{StoreDir: dir, Log: zerolog.Nop()})
	if !errors.Is(err, embed.ErrLocked) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("second start gives %v, want ErrLocked naming the directory", err)
	}
	first.Shutdown()
	start(t, embed.Config{StoreDir: dir})
}

func TestDamagedCredentialsAreNamed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "nats-credentials.json")
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := embed.Start(embed.Config{StoreDir: dir}); err == nil || !strings.Contains(err.Error(), path) {
		t.Fatalf("start gives %v, want an error naming %s", err, path)
	}
}

func TestConfigFaultsComeTogether(t *testing.T) {
	_, err := embed.Start(embed.Config{Port: 70000, MaxPayload: 1})
	for _, want := range []string{"StoreDir", "70000", "MaxPayload"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
}
