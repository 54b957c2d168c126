package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnfold/turnfold/reducer/archive"
	"github.com/turnfold/turnfold/reducer/audit"
	"github.com/turnfold/turnfold/subjects"
)

// turnAddress reads <turn> or <tenant>/<turn>.
func turnAddress(text string) (subjects.Turn, error) {
	t := subjects.Turn{Tenant: subjects.LocalTenant, ID: text}
	if tenant, id, ok := strings.Cut(text, "/"); ok {
		t = subjects.Turn{Tenant: tenant, ID: id}
	}
	if err := errors.Join(subjects.CheckID("tenant", t.Tenant), subjects.CheckID("turn", t.ID)); err != nil {
		return t, coded{exitUsage, err}
	}
	return t, nil
}

func exportCommand(g *globals) *cobra.Command {
	var since, sign string
	var all bool
	cmd := &cobra.Command{
		Use: "export [turn] <file|dir>", Short: "Write a bundle that proves turns without this deployment",
		Long: "export writes one turn, or all that was stored since a time, as a bundle: lines of JSON, chained by SHA-256,\n" +
			"closed by a manifest. The file appears when it is whole. A turn of another tenant is written tenant/turn.",
		Example: "  turnfold audit export 0198c1 turn.ndjson\n  turnfold audit export --since 24h /backup/ --sign key.pem",
		Args:    args(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, list []string) error {
			e := audit.Export{Binary: buildVersion().Version}
			ranges := len(list) - 1
			if all {
				ranges++
			}
			if since != "" {
				ranges++
			}
			if ranges != 1 {
				return usagef("name a turn, or say one of --all and --since")
			}
			var err error
			if len(list) == 2 {
				if e.Turn, err = turnAddress(list[0]); err != nil {
					return err
				}
			}
			if e.Since, err = sinceOf(since); err != nil {
				return err
			}
			if sign != "" {
				if e.Key, err = privateKey(sign); err != nil {
					return coded{exitUsage, err}
				}
			}
			return export(cmd, g, e, list[len(list)-1])
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "all there is")
	cmd.Flags().StringVar(&since, "since", "", "all that was stored since: a duration (24h) or a time (RFC 3339)")
	cmd.Flags().StringVar(&sign, "sign", "", "file with an ed25519 private key (PKCS #8, PEM) that signs the manifest")
	return cmd
}

func export(cmd *cobra.Command, g *globals, e audit.Export, path string) error {
	log, _, closeLog, err := g.openLog(cmd)
	if err != nil {
		return err
	}
	defer closeLog()
	deployment, err := log.Deployment(cmd.Context())
	if err != nil {
		return unavailable(err)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		what := "all"
		switch {
		case e.Turn.ID != "":
			what = e.Turn.Tenant + "-" + e.Turn.ID
		case !e.Since.IsZero():
			what = "since-" + e.Since.UTC().Format("20060102T150405Z")
		}
		path = filepath.Join(path, "turnfold-"+deployment+"-"+what+".ndjson")
	}
	e.Written = func(n uint64) {
		if n%10_000 == 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "\rexport: %d messages ", n)
		}
	}
	err = archive.WriteWhole(path, func(w io.Writer) error { return log.Export(cmd.Context(), w, e) })
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	if g.json {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]string{"bundle": path, "deployment": deployment})
	}
	say(cmd, "%s", path)
	return nil
}

func verifyCommand(g *globals) *cobra.Command {
	var v verifying
	cmd := &cobra.Command{
		Use: "verify <bundle|archive>...", Short: "Audit bundles with nothing but the bundles; exit 3 if one does not hold",
		Long: "verify audits bundles of turnfold audit export, compressed or not, and whole archives of turnfold archive:\n" +
			"with an archive, its manifest and every file that it names.",
		Example: "  turnfold audit verify turn.ndjson --key pub.pem\n  turnfold audit verify /archive",
		Args:    args(cobra.MinimumNArgs(1)),
		RunE:    func(cmd *cobra.Command, list []string) error { return v.all(cmd, g, list) },
	}
	cmd.Flags().StringVar(&v.keyFile, "key", "", "file with the signer's ed25519 public key (PEM); without a signature by it the bundle is refused")
	cmd.Flags().BoolVar(&v.settled, "settled", false, "nothing was under way: outputs that are due are missing")
	cmd.Flags().StringVar(&v.deployment, "deployment", "", "refuse a bundle of another deployment")
	return cmd
}

// verifying is what a run of verify asks for.
type verifying struct {
	keyFile, deployment string
	settled             bool
}

func (v verifying) all(cmd *cobra.Command, g *globals, list []string) error {
	for _, path := range list {
		if _, err := os.Stat(path); err != nil {
			return coded{exitUsage, err}
		}
	}
	sources, err := archive.Sources(list)
	if err != nil {
		return coded{exitMismatch, fmt.Errorf("verify: %w", err)}
	}
	bad, tick := 0, time.Now()
	for n, s := range sources {
		ok, err := v.one(cmd, g, s, len(sources) == 1)
		if err != nil {
			return err
		}
		if !ok {
			bad++
		}
		if time.Since(tick) > time.Second {
			tick = time.Now()
			fmt.Fprintf(cmd.ErrOrStderr(), "\rverify: %d of %d bundles ", n+1, len(sources))
		}
		if err := cmd.Context().Err(); err != nil {
			return err
		}
	}
	if len(sources) != 1 && !g.json {
		say(cmd, "%d bundles, %d do not hold", len(sources), bad)
	}
	if bad > 0 {
		return coded{exitMismatch, nil}
	}
	return nil
}

func (v verifying) one(cmd *cobra.Command, g *globals, s archive.Source, alone bool) (bool, error) {
	out := json.NewEncoder(cmd.OutOrStdout())
	e, err := s.Verify(v.settled, func(v audit.Verdict) {
		switch {
		case g.json:
			_ = out.Encode(v) // a reader that went away is no failure of ours
		case !v.OK:
			sayVerdict(cmd, nameOf(v), v)
		}
	})
	if err != nil {
		return false, coded{exitMismatch, fmt.Errorf("verify %w", err)}
	}
	if v.deployment != "" && e.Head.Deployment != v.deployment {
		return false, coded{exitMismatch, fmt.Errorf("verify %s: %w: it is of deployment %s", s.Path, audit.ErrForeign, e.Head.Deployment)}
	}
	if err := checkSigner(v.keyFile, e.Key); err != nil {
		return false, fmt.Errorf("verify %s: %w", s.Path, err)
	}
	if alone || !e.Report.OK {
		sayEvidence(cmd, g, e)
	}
	return e.Report.OK, nil
}

func checkSigner(file string, signer []byte) error {
	if file == "" {
		return nil
	}
	want, err := publicKey(file)
	if err != nil {
		return coded{exitUsage, err}
	}
	if len(signer) == 0 {
		return coded{exitMismatch, fmt.Errorf("%w: it is not signed", audit.ErrForeign)}
	}
	if !want.Equal(ed25519.PublicKey(signer)) {
		return coded{exitMismatch, fmt.Errorf("%w: it is signed by another key", audit.ErrForeign)}
	}
	return nil
}

func sayEvidence(cmd *cobra.Command, g *globals, e audit.Evidence) {
	signer := "not signed"
	if len(e.Key) > 0 {
		signer = fmt.Sprintf("signed by %x", e.Key)
	}
	if g.json {
		_ = json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"ok": e.Report.OK, "deployment": e.Head.Deployment,
			"manifest": e.Manifest, "signer": fmt.Sprintf("%x", e.Key), "turns": e.Report.Turns, "mismatches": e.Report.Mismatches,
			"partitions": e.Report.Partitions})
	} else {
		for _, c := range e.Report.Partitions {
			say(cmd, "partition %d: %s at %s %d: %s", c.Partition, c.ID, c.Stream, c.Seq, c.Detail)
		}
		word := "ok"
		if !e.Report.OK {
			word = "MISMATCH"
		}
		say(cmd, "%s: %d turns, %d mismatches, %d erased; deployment %s, chain %s, %s", word, e.Report.Turns, e.Report.Mismatches,
			e.Report.Erased, e.Head.Deployment, e.Manifest.Chain, signer)
	}
}

func pemOf(file string) ([]byte, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, fmt.Errorf("%s is no PEM file; make one with: openssl genpkey -algorithm ed25519", file)
	}
	return block.Bytes, nil
}

func privateKey(file string) (ed25519.PrivateKey, error) {
	raw, err := pemOf(file)
	if err != nil {
		return nil, err
	}
	k, err := x509.ParsePKCS8PrivateKey(raw)
	if key, ok := k.(ed25519.PrivateKey); err == nil && ok {
		return key, nil
	}
	return nil, fmt.Errorf("%s holds no ed25519 private key", file)
}

func publicKey(file string) (ed25519.PublicKey, error) {
	raw, err := pemOf(file)
	if err != nil {
		return nil, err
	}
	k, err := x509.ParsePKIXPublicKey(raw)
	if key, ok := k.(ed25519.PublicKey); err == nil && ok {
		return key, nil
	}
	return nil, fmt.Errorf("%s holds no ed25519 public key", file)
}
