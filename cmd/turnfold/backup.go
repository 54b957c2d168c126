package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/turnfold/turnfold/cmd/turnfold/config"
	"github.com/turnfold/turnfold/keystore"
	"github.com/turnfold/turnfold/reducer/archive"
	"github.com/turnfold/turnfold/subjects/embed"
)

// backupName is the file that is written last into a backup.
const backupName = "BACKUP.json"

// backupManifest says what a backup holds.
type backupManifest struct {
	Type   string       `json:"type"` // turnfold-backup
	Binary string       `json:"binary"`
	At     string       `json:"at"`
	Bytes  int64        `json:"bytes"`
	Files  []backupFile `json:"files"`
}

type backupFile struct {
	Path   string `json:"path"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

func backupCommand(g *globals) *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use: "backup <folder>", Short: "Copy the whole store of this host: logs, key store, identity",
		Long: "backup copies the store of this host into a folder that does not exist yet. It appears when all of it is on\n" +
			"the disk; its content is the store_dir of a turnfold, to be copied back into an empty one. turnfold serve must\n" +
			"be stopped meanwhile. With NATS servers of your own only the key store and the identity are here to be copied;\n" +
			"back the streams up with nats stream backup, effects last.",
		Example: "  turnfold backup /backup/monday\n  turnfold backup --check /backup/monday",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			if check {
				return checkBackup(cmd, g, list[0])
			}
			return backup(cmd, g, list[0])
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "compare a backup with its own list of files")
	return cmd
}

func backup(cmd *cobra.Command, g *globals, dir string) error {
	cfg, err := g.load(cmd)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return usagef("%s is there already; name a folder that is not", dir)
	}
	if left, err := filepath.Glob(dir + ".part-*"); err == nil { // of runs that were cut off
		for _, path := range left {
			_ = os.RemoveAll(path) // it is of no harm
		}
	}
	part, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".part-*")
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	b := &backing{ctx: cmd.Context(), cfg: cfg, to: part, progress: cmd.ErrOrStderr(), tick: time.Now(),
		m: backupManifest{Type: "turnfold-backup", Binary: buildVersion().Version, At: time.Now().UTC().Format(time.RFC3339), Files: []backupFile{}}}
	if err = b.all(); err == nil {
		err = os.Rename(part, dir)
	}
	if err != nil {
		_ = os.RemoveAll(part)
		if errors.Is(err, embed.ErrLocked) || errors.Is(err, keystore.ErrLocked) {
			return unavailable(fmt.Errorf("backup: %w; stop turnfold serve first", err))
		}
		return fmt.Errorf("backup: %w", err)
	}
	syncFolder(filepath.Dir(dir))
	if g.json {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"backup": dir, "files": len(b.m.Files), "bytes": b.m.Bytes, "streams": cfg.NATS.Embedded()})
	}
	say(cmd, "%s: %d files, %d bytes", dir, len(b.m.Files), b.m.Bytes)
	if !cfg.NATS.Embedded() {
		say(cmd, "the streams lie on NATS servers of your own: nats stream backup copies them, those of effects last")
	}
	return nil
}

// backing is one run of backup.
type backing struct {
	ctx      context.Context
	cfg      *config.Config
	to       string
	m        backupManifest
	progress io.Writer
	tick     time.Time
}

// all copies the logs first and the key store second: an effect may be remembered
// without its turn, never the other way round.
func (b *backing) all() error {
	store := b.cfg.NATS.StoreDir
	if b.cfg.NATS.Embedded() {
		unlock, err := embed.Lock(filepath.Join(store, "nats"))
		if err != nil {
			return err
		}
		defer unlock()
		if err := b.tree(filepath.Join(store, "nats"), "nats"); err != nil {
			return err
		}
	}
	if err := b.keys(filepath.Join(store, "keystore")); err != nil {
		return err
	}
	if err := b.file(filepath.Join(store, "instance"), "instance"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	data, err := json.MarshalIndent(b.m, "", "  ")
	if err != nil {
		return err
	}
	return archive.WriteWhole(filepath.Join(b.to, backupName), func(w io.Writer) error {
		_, err := w.Write(append(data, '\n'))
		return err
	})
}

// keys takes a checkpoint of the key store, which then is like every other folder.
func (b *backing) keys(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil // no executor has run here
	}
	s, err := keystore.Open(dir, keystore.Config{Host: "backup", Log: zerolog.Nop()})
	if err != nil {
		return err
	}
	point := filepath.Join(b.to, "checkpoint")
	if err := errors.Join(s.Checkpoint(point), s.Close()); err != nil {
		return err
	}
	if err := b.tree(point, "keystore"); err != nil {
		return err
	}
	return os.RemoveAll(point)
}

// tree copies what a folder holds, but for what belongs to a running process.
func (b *backing) tree(from, name string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(b.to, name, rel), 0o700)
		}
		if !d.Type().IsRegular() || embed.OfProcess(d.Name()) {
			return nil
		}
		return b.file(path, filepath.Join(name, rel))
	})
}

func (b *backing) file(from, name string) error {
	if err := b.ctx.Err(); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	path := filepath.Join(b.to, name)
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, sum), in)
	if err := errors.Join(err, out.Sync(), out.Close()); err != nil {
		return err
	}
	syncFolder(filepath.Dir(path))
	b.m.Files = append(b.m.Files, backupFile{filepath.ToSlash(name), n, hex.EncodeToString(sum.Sum(nil))})
	b.m.Bytes += n
	if time.Since(b.tick) > time.Second {
		b.tick = time.Now()
		fmt.Fprintf(b.progress, "\rbackup: %d files, %d MiB ", len(b.m.Files), b.m.Bytes>>20)
	}
	return nil
}

// syncFolder has a folder's names on the disk, where that is possible.
func syncFolder(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}

// checkBackup compares a backup with its list: all files are there, as they were copied.
func checkBackup(cmd *cobra.Command, g *globals, dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, backupName))
	if err != nil {
		return coded{exitUsage, fmt.Errorf("backup: %s is no backup, or one that was cut off: %w", dir, err)}
	}
	var m backupManifest
	if err := json.Unmarshal(data, &m); err != nil || m.Type != "turnfold-backup" {
		return coded{exitMismatch, fmt.Errorf("backup: %s is no list of a backup: %w", backupName, errors.Join(err, errors.New("wrong type")))}
	}
	for _, f := range m.Files {
		if !filepath.IsLocal(filepath.FromSlash(f.Path)) {
			return coded{exitMismatch, fmt.Errorf("backup: %s names %q, which is not in it", backupName, f.Path)}
		}
		in, err := os.Open(filepath.Join(dir, filepath.FromSlash(f.Path)))
		if err != nil {
			return coded{exitMismatch, fmt.Errorf("backup: %w", err)}
		}
		sum := sha256.New()
		_, err = io.Copy(sum, in)
		if err := errors.Join(err, in.Close()); err != nil {
			return fmt.Errorf("backup: %w", err)
		}
		if hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
			return coded{exitMismatch, fmt.Errorf("backup: %s was changed", f.Path)}
		}
	}
	if g.json {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"backup": dir, "files": len(m.Files), "bytes": m.Bytes, "ok": true})
	}
	say(cmd, "ok: %d files, %d bytes, of %s", len(m.Files), m.Bytes, m.At)
	return nil
}
