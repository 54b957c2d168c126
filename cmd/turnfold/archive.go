package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnfold/turnfold/reducer/archive"
	"github.com/turnfold/turnfold/reducer/audit"
)

func archiveCommand(g *globals) *cobra.Command {
	var since, until, older, sign string
	var all bool
	cmd := &cobra.Command{
		Use: "archive [turn]... <folder>", Short: "Write ended turns to files, a compressed bundle each, before they age out",
		Long: "archive writes turns into a folder: a bundle of turnfold audit export each, compressed with zstd, and a manifest\n" +
			"that is written last. A file appears when it is whole. Run again, it writes only what is new or has changed,\n" +
			"so a run that was cut off is simply run again. Turns that have not ended are left for a later run.",
		Example: "  turnfold archive --older-than 600h /archive\n  turnfold archive --since 2026-01-01T00:00:00Z --until 2026-02-01T00:00:00Z /archive/january\n  turnfold archive 0198c1 /archive",
		Args:    args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			o := archive.Options{Binary: buildVersion().Version}
			for _, text := range list[:len(list)-1] {
				t, err := turnAddress(text)
				if err != nil {
					return err
				}
				o.Turns = append(o.Turns, t)
			}
			ranged := all || since != "" || until != "" || older != ""
			if ranged == (len(o.Turns) > 0) || all && (since != "" || until != "" || older != "") || until != "" && older != "" {
				return usagef("name turns, or say --all, or any of --since and one of --until and --older-than")
			}
			var err error
			if o.Since, err = timeOf("since", since); err != nil {
				return err
			}
			if o.Until, err = timeOf("until", until); err == nil && older != "" {
				o.Until, err = timeOf("older-than", older)
			}
			if err != nil {
				return err
			}
			if sign != "" {
				if o.Key, err = privateKey(sign); err != nil {
					return coded{exitUsage, err}
				}
			}
			return runArchive(cmd, g, o, list[len(list)-1])
		},
	}
	f := cmd.Flags()
	f.BoolVar(&all, "all", false, "every turn that has ended")
	f.StringVar(&since, "since", "", "turns opened since: a duration (24h) or a time (RFC 3339)")
	f.StringVar(&until, "until", "", "turns opened before: a duration (24h) or a time (RFC 3339)")
	f.StringVar(&older, "older-than", "", "turns opened longer ago than this, as in 600h")
	f.StringVar(&sign, "sign", "", "file with an ed25519 private key (PKCS #8, PEM) that signs every bundle")
	return cmd
}

// timeOf reads an age or a time that is the value of a flag.
func timeOf(flag, text string) (time.Time, error) {
	t, err := sinceOf(text)
	if err != nil {
		return t, usagef("--%s %s: write a duration, as in 24h, or a time, as in 2026-01-02T15:04:05Z", flag, text)
	}
	return t, nil
}

func runArchive(cmd *cobra.Command, g *globals, o archive.Options, dir string) error {
	log, _, closeLog, err := g.openLog(cmd)
	if err != nil {
		return err
	}
	defer closeLog()
	out := json.NewEncoder(cmd.OutOrStdout())
	o.Done = func(e archive.Entry, result archive.Result) {
		if g.json {
			_ = out.Encode(map[string]any{"turn": e.Turn, "result": result, "file": e.File, "bytes": e.Bytes})
		}
	}
	tick := time.Now()
	o.Progress = func(r archive.Report) {
		if time.Since(tick) > time.Second {
			tick = time.Now()
			fmt.Fprintf(cmd.ErrOrStderr(), "\rarchive: %d of %d turns, %d written ", r.Written+r.Had+r.Open+r.Erased, r.Found, r.Written)
		}
	}
	r, err := archive.Run(cmd.Context(), log, dir, o)
	if err != nil {
		if errors.Is(err, audit.ErrForeign) {
			return coded{exitUsage, err}
		}
		return err
	}
	if g.json {
		_ = json.NewEncoder(cmd.ErrOrStderr()).Encode(r) // data are turns alone
		return nil
	}
	say(cmd, "%s: %d turns written (%d bytes), %d there before, %d not ended yet, %d erased; deployment %s",
		dir, r.Written, r.Bytes, r.Had, r.Open, r.Erased, r.Deployment)
	if !r.Complete {
		say(cmd, "an earlier, larger run has not come to its end; run it again")
	}
	return nil
}
