package embed

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// credentials of the only user, made at the first start and kept.
type credentials struct {
	User     string `json:"user"`
	Password string `json:"password"`
}

func credentialsPath(dir string) string { return filepath.Join(dir, "nats-credentials.json") }

// loadCredentials reads the directory's credentials, or makes them. The caller
// holds the directory's lock.
func loadCredentials(dir string) (credentials, error) {
	path := credentialsPath(dir)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return makeCredentials(path)
	}
	if err != nil {
		return credentials{}, fmt.Errorf("embed: %w", err)
	}
	var c credentials
	if err := json.Unmarshal(raw, &c); err != nil || c.User == "" || c.Password == "" {
		return credentials{}, fmt.Errorf("embed: %s has no user and password; remove it to have new ones made", path)
	}
	if err := os.Chmod(path, 0o600); err != nil { // a copied directory may have lost the mode
		return credentials{}, fmt.Errorf("embed: %w", err)
	}
	return c, nil
}

// makeCredentials writes a temporary file and renames it, so that a crash leaves
// either no file or a whole one.
func makeCredentials(path string) (credentials, error) {
	c := credentials{User: "turnfold", Password: rand.Text()}
	raw, err := json.Marshal(c)
	if err != nil {
		return credentials{}, fmt.Errorf("embed: %w", err)
	}
	tmp := path + ".new"
	if err := os.WriteFile(tmp, append(raw, '\n'), 0o600); err != nil {
		return credentials{}, fmt.Errorf("embed: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return credentials{}, fmt.Errorf("embed: %w", err)
	}
	return c, nil
}

// quote makes s one word of a POSIX shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
