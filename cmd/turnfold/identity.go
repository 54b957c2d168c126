package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"github.com/turnfold/turnfold/cmd/turnfold/config"
	"github.com/turnfold/turnfold/executor/tool/strict"
	"github.com/turnfold/turnfold/subjects"
)

// identity gives this host's id, which is kept in the store directory across restarts:
// a restarted process may declare its own predecessor dead at once. Two hosts must
// never share a store directory, or each would do that to the other.
func identity(dir string) (string, error) {
	path := filepath.Join(dir, "instance")
	data, err := os.ReadFile(path)
	if err == nil {
		id := strings.TrimSpace(string(data))
		if err := subjects.CheckID("instance", id); err != nil {
			return "", fmt.Errorf("%s: %w; remove the file to have a new one made", path, err)
		}
		return id, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the instance's id: %w", err)
	}
	id := uuid.NewString()
	tmp := path + ".new"
	if err := os.WriteFile(tmp, []byte(id+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write the instance's id: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil { // a crash leaves no file or a whole one
		return "", fmt.Errorf("write the instance's id: %w", err)
	}
	return id, nil
}

// tokensOf reads the tokens file: an object of tokens and their tenants.
func tokensOf(cfg *config.Config) (map[string]string, error) {
	if cfg.TokensFile == "" {
		return nil, nil
	}
	data, err := os.ReadFile(cfg.TokensFile)
	if err != nil {
		return nil, fmt.Errorf("tokens file: %w", err)
	}
	var report strict.Report
	root, err := strict.Parse(cfg.TokensFile, data, &report)
	if err != nil {
		return nil, fmt.Errorf("tokens file: it cannot be read as YAML") // err may quote a token
	}
	tokens := map[string]string{}
	for _, m := range root.Members() {
		tenant := m.String()
		if err := subjects.CheckID("tenant", tenant); err != nil {
			return nil, fmt.Errorf("tokens file: line %d: %w", m.Line(), err)
		}
		if len(m.Key) < tokenLenMin {
			return nil, fmt.Errorf("tokens file: line %d: the token has %d characters; use at least %d", m.Line(), len(m.Key), tokenLenMin)
		}
		tokens[m.Key] = tenant
	}
	if report.Err() != nil || len(tokens) == 0 {
		return nil, fmt.Errorf("tokens file: write one line for each token, as in a-long-random-token: tenant")
	}
	return tokens, nil
}

// tokenLenMin keeps out tokens that can be guessed.
const tokenLenMin = 16
