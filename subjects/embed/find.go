package embed

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrNotRunning: nobody has served this store directory, or it was stopped cleanly.
var ErrNotRunning = errors.New("embed: no server runs on this store directory")

// Address is where a running server can be reached, by who may read its directory.
type Address struct {
	URL      string `json:"url"`
	User     string `json:"-"`
	Password string `json:"-"`
}

func addressPath(dir string) string { return filepath.Join(dir, "nats-address.json") }

// announce writes down where the server listens, for other programs of this user on
// this host: audits read the log itself, not what a process says of it.
func (s *Server) announce() error {
	raw, err := json.Marshal(Address{URL: s.URL()})
	if err != nil {
		return fmt.Errorf("embed: %w", err)
	}
	tmp := addressPath(s.dir) + ".new"
	if err := os.WriteFile(tmp, append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("embed: %w", err)
	}
	if err := os.Rename(tmp, addressPath(s.dir)); err != nil {
		return fmt.Errorf("embed: %w", err)
	}
	return nil
}

// Find tells where the server of a store directory listens. After a crash it may tell
// of one that is gone.
func Find(dir string) (Address, error) {
	raw, err := os.ReadFile(addressPath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return Address{}, fmt.Errorf("%w: %s", ErrNotRunning, dir)
	}
	if err != nil {
		return Address{}, fmt.Errorf("embed: %w", err)
	}
	var a Address
	if err := json.Unmarshal(raw, &a); err != nil || a.URL == "" {
		return Address{}, fmt.Errorf("embed: %s names no address", addressPath(dir))
	}
	raw, err = os.ReadFile(credentialsPath(dir))
	if err != nil {
		return Address{}, fmt.Errorf("embed: %w", err)
	}
	var c credentials
	if err := json.Unmarshal(raw, &c); err != nil || c.User == "" {
		return Address{}, fmt.Errorf("embed: %s has no user and password", credentialsPath(dir))
	}
	a.User, a.Password = c.User, c.Password
	return a, nil
}
