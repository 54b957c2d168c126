package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnfold/turnfold/reducer/archive"
	"github.com/turnfold/turnfold/reducer/audit"
	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/jet"
)

// eraseEvery is how often an erasure that is under way is asked for.
const eraseEvery = 50 * time.Millisecond

// eraseFlags say what to erase, and who says so.
type eraseFlags struct {
	tenant, by, reason string
	archives           []string
	wait               time.Duration
}

func eraseCommand(g *globals) *cobra.Command {
	var f eraseFlags
	cmd := &cobra.Command{
		Use: "erase <turn>...", Short: "Take the content of turns away for good; what was done stays known",
		Long: "erase orders that a turn's text, arguments and results are taken away: from the events, the feed, the\n" +
			"results on the effects log, the executors' memories and the message store. A turn that runs is cancelled\n" +
			"first, and ends. What remains are names, counts and effect keys: effects still deduplicate, audits say\n" +
			"erased, readers get 410. A turn of another tenant is written tenant/turn.\n\n" +
			"The running turnfold does the work, and goes on with it if this command is interrupted. Without one,\n" +
			"the order is kept and done at the next start. Backups, logs of your own and archives that are not named\n" +
			"are yours to look after.",
		Example: "  turnfold erase 0198c1 --by ann --reason request-17\n  turnfold erase --tenant acme --archive /archive",
		Args:    args(cobra.ArbitraryArgs),
		RunE: func(cmd *cobra.Command, list []string) error {
			if (len(list) == 0) == (f.tenant == "") {
				return usagef("name turns, or say --tenant")
			}
			return erase(cmd, g, list, f)
		},
	}
	cmd.Flags().StringVar(&f.tenant, "tenant", "", "erase every turn of this tenant")
	cmd.Flags().StringVar(&f.by, "by", "", "who orders it; it is kept")
	reasonFlag(cmd, &f.reason, "reason", "why", "why; it is kept, so name no content")
	cmd.Flags().StringArrayVar(&f.archives, "archive", nil, "take the turns out of this archive of turnfold archive too; may be repeated")
	cmd.Flags().DurationVar(&f.wait, "wait", 5*time.Minute, "how long to wait until all is done")
	return cmd
}

func erase(cmd *cobra.Command, g *globals, list []string, f eraseFlags) error {
	var named []subjects.Turn
	for _, text := range list {
		t, err := turnAddress(text)
		if err != nil {
			return err
		}
		named = append(named, t)
	}
	if f.tenant != "" {
		if err := subjects.CheckID("tenant", f.tenant); err != nil {
			return coded{exitUsage, err}
		}
	}
	for _, dir := range f.archives {
		m, err := archive.ReadManifest(dir)
		if err != nil {
			return coded{exitUsage, fmt.Errorf("--archive: %w", err)}
		}
		for name := range m.Entries { // a tenant's turns may have left the log long ago
			if t, err := subjects.ParseTurn(name); err == nil && t.Tenant == f.tenant {
				named = append(named, t)
			}
		}
	}
	o, err := g.open(cmd, true)
	if err != nil {
		return err
	}
	defer o.close()
	if o.alone { // the store may be older than the list of orders
		if err := o.log.Conn.Ensure(cmd.Context(), layoutOf(o.cfg)); err != nil {
			return err
		}
	}
	ctx := cmd.Context()
	if f.tenant != "" {
		on, err := turnsOf(ctx, o.log, f.tenant)
		if err != nil {
			return fmt.Errorf("erase: %w", err)
		}
		named = append(named, on...)
		slices.SortFunc(named, func(a, b subjects.Turn) int { return strings.Compare(a.ID, b.ID) })
		named = slices.Compact(named)
	}
	x := &erasing{cmd: cmd, g: g, log: o.log, reader: turns.NewReader(o.log.Conn, o.log.Partitions)}
	// The orders first: whatever happens to this command, the log's content will go.
	var ordered []subjects.Turn
	for _, t := range named {
		switch err := x.order(ctx, t, f); {
		case err == nil:
			ordered = append(ordered, t)
		case !errors.Is(err, audit.ErrNoTurn) || len(f.archives) == 0:
			return fmt.Errorf("erase %s: %w", t, err)
		}
	}
	if err := x.archives(f.archives, named); err != nil {
		return err
	}
	named = ordered
	if o.alone && len(named) > 0 {
		return unavailable(fmt.Errorf("%d turns are ordered to be erased, and no turnfold runs: it is done when turnfold serve starts", len(named)))
	}
	return x.await(ctx, named, f.wait)
}

// erasing is one run of the verb.
type erasing struct {
	cmd    *cobra.Command
	g      *globals
	log    audit.Log
	reader *turns.Reader
}

// order asks for an erasure. A turn that left no trace is a mistake of the caller's.
func (x *erasing) order(ctx context.Context, t subjects.Turn, f eraseFlags) error {
	if _, have, err := x.reader.Erasure(ctx, t); err != nil || have {
		return err
	}
	p := t.Partition(x.log.Partitions)
	_, onEV, err := x.log.Conn.LastOf(ctx, subjects.EventsStream(p), subjects.Events(p, t))
	if err != nil {
		return err
	}
	_, onOUT, err := x.log.Conn.LastOf(ctx, subjects.OutputsStream(p), subjects.OutTurn(p, t))
	if err != nil {
		return err
	}
	if !onEV && !onOUT {
		return audit.ErrNoTurn
	}
	_, err = x.reader.AskErasure(ctx, t, f.by, f.reason)
	return err
}

// archives takes turns out of archives.
func (x *erasing) archives(dirs []string, list []subjects.Turn) error {
	for _, dir := range dirs {
		n, err := archive.Erase(dir, list, buildVersion().Version)
		if err != nil {
			return fmt.Errorf("erase from %s: %w", dir, err)
		}
		if x.g.json {
			_ = json.NewEncoder(x.cmd.OutOrStdout()).Encode(map[string]any{"archive": dir, "turns": n})
		} else {
			say(x.cmd, "%s: %d turns erased", dir, n)
		}
	}
	return nil
}

// await tells of each turn when it is erased. What is not done in time goes on without
// this command.
func (x *erasing) await(ctx context.Context, list []subjects.Turn, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	out := json.NewEncoder(x.cmd.OutOrStdout())
	done := 0
	for _, t := range list {
		var e turns.Erasure
		for {
			var err error
			if e, _, err = x.reader.Erasure(ctx, t); err != nil && ctx.Err() == nil {
				return fmt.Errorf("erase %s: %w", t, err)
			}
			// For a host that is away nobody waits: it may be for days.
			if e.State == turns.ErasureErased || pauseFor(ctx, eraseEvery) != nil {
				break
			}
		}
		if x.g.json {
			_ = out.Encode(e) // a reader that went away is no failure of ours
		} else {
			sayErasure(x.cmd, t, e)
		}
		if e.Complete() {
			done++
			fmt.Fprintf(x.cmd.ErrOrStderr(), "\rerase: %d of %d turns ", done, len(list))
		}
	}
	fmt.Fprintln(x.cmd.ErrOrStderr())
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	if done < len(list) {
		return unavailable(fmt.Errorf("%d of %d turns are not erased everywhere yet; it goes on by itself, and the same command tells how far it is", len(list)-done, len(list)))
	}
	return nil
}

func pauseFor(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func sayErasure(cmd *cobra.Command, t subjects.Turn, e turns.Erasure) {
	switch {
	case e.State == turns.ErasureErased && len(e.Waiting) > 0:
		say(cmd, "%s: erased from the logs; not yet by the hosts %s, which do it when they are back", t, strings.Join(e.Waiting, ", "))
	case e.State != turns.ErasureErased:
		say(cmd, "%s: not erased yet (%s)", t, e.State)
		return
	default:
		say(cmd, "%s: erased", t)
	}
	say(cmd, "  gone: %d events, %d outputs, %d results, the message", e.Events, e.Outputs, e.Bodies)
	for _, c := range e.Calls {
		say(cmd, "  stays: call %s of %s, %s, key %s", c.Call, c.Tool, c.Outcome, c.Key)
	}
	for _, stream := range e.Left {
		say(cmd, "  left: bytes in the files of %s, which denies deletes, until the server rewrites them", stream)
	}
}

// turnsOf lists the turns of a tenant that have left a trace and are not erased.
func turnsOf(ctx context.Context, log audit.Log, tenant string) ([]subjects.Turn, error) {
	seen, gone := map[subjects.Turn]bool{}, map[subjects.Turn]bool{}
	for p := range log.Partitions {
		_, err := log.Conn.ReadSubject(ctx, subjects.EventsStream(p), subjects.EventsOf(p, tenant), 1, 0, func(m jet.Msg) error {
			_, t, err := subjects.ParseEvents(m.Subject)
			if err != nil {
				return nil
			}
			seen[t] = true
			if b, err := event.Decode(m.Data); err == nil && b.Kind() == new(event.TurnErased).Kind() {
				gone[t] = true
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		_, err = log.Conn.ReadSubject(ctx, subjects.OutputsStream(p), subjects.OutOf(p, tenant), 1, 0, func(m jet.Msg) error {
			if _, t, _, err := subjects.ParseOut(m.Subject); err == nil {
				seen[t] = true
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	var out []subjects.Turn
	for t := range seen {
		if !gone[t] {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b subjects.Turn) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}
