package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnfold/turnfold/streamer/provider/replay"
)

// newProviderCommand makes the verbs that play a provider and record one.
func newProviderCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "provider", Short: "Play a model provider from recorded bytes, or record one", Args: args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error { return usagef("say what to do: replay or record") }}
	cmd.AddCommand(newReplayCommand(), newRecordCommand())
	return cmd
}

type replayFlags struct {
	listen, end, split string
	cutByte, cutEvent  int
	cutRequests, rate  int
	status             int
	once, json         bool
}

func newReplayCommand() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay FILE...",
		Short: "Serve recorded answers, whole or cut where you say",
		Long: "Serves recordings over HTTP, byte for byte. A FILE named .json is a recording made by\n" +
			"\"turnfold provider record\"; any other is the body of an event stream with status 200.\n\n" +
			"A request gets the next FILE of its API (by its path); a bare body answers any request. The\n" +
			"last one repeats. A cut, an end and a status apply to the first request only, so that a retry\n" +
			"gets a whole answer; see --cut-requests.",
		Example: "  # The first attempt breaks after 300 bytes with a TCP reset, the second one is whole.\n" +
			"  turnfold provider replay first.sse second.sse --cut-byte 300\n\n" +
			"  # A clean end of the stream without its finish.\n" +
			"  turnfold provider replay answer.sse --cut-event 4 --end eof\n\n" +
			"  # A provider that falls silent, every time; stops after one request.\n" +
			"  turnfold provider replay answer.sse --cut-event 2 --end hang --cut-requests 0 --once\n\n" +
			"  # A slow one: a byte per write, 200 bytes a second.\n" +
			"  turnfold provider replay answer.sse --split byte --rate 200",
		Args: args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, files []string) error { return f.run(cmd, files) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.listen, "listen", "127.0.0.1:9999", "address to serve on; port 0 takes a free one")
	fl.IntVar(&f.cutByte, "cut-byte", 0, "break off after so many bytes of the body; 0 leaves the head alone")
	fl.IntVar(&f.cutEvent, "cut-event", 0, "break off after so many events")
	fl.StringVar(&f.end, "end", "", "how it ends: reset, eof, hang, close (inside the body) or before (a reset instead of an answer)\n(default: reset after a cut, else as recorded)")
	fl.StringVar(&f.split, "split", "recorded", "writes of the body: byte, event, whole or recorded")
	fl.IntVar(&f.rate, "rate", 0, "bytes a second; 0 is no limit")
	fl.IntVar(&f.status, "status", 0, "answer with this status instead of the recorded one")
	fl.IntVar(&f.cutRequests, "cut-requests", 1, "how many requests are cut, ended or refused so; 0 is all")
	fl.BoolVar(&f.once, "once", false, "stop when as many requests were answered as there are files")
	fl.BoolVar(&f.json, "json", false, "write one JSON object a line")
	return cmd
}

// faults are what the first requests get, and what the others get.
func (f *replayFlags) faults(cmd *cobra.Command) (first, later replay.Fault, err error) {
	later = replay.Fault{BytesPerSecond: f.rate, Split: replay.Split(f.split)}
	if f.split == "recorded" {
		later.Split = replay.SplitRecorded
	}
	first = later
	first.End, first.Status = replay.End(f.end), f.status
	if cmd.Flags().Changed("cut-byte") {
		first.Cut = replay.AfterByte(f.cutByte)
	}
	if cmd.Flags().Changed("cut-event") {
		first.Cut = replay.AfterEvent(f.cutEvent)
	}
	if cmd.Flags().Changed("cut-byte") && cmd.Flags().Changed("cut-event") {
		return first, later, usagef("--cut-byte and --cut-event: a body is cut in one place")
	}
	if f.cutRequests < 0 {
		return first, later, usagef("--cut-requests %d: write 0 for all", f.cutRequests)
	}
	if err := first.Validate(); err != nil {
		return first, later, coded{exitUsage, err}
	}
	return first, later, nil
}

func (f *replayFlags) run(cmd *cobra.Command, files []string) error {
	first, later, err := f.faults(cmd)
	if err != nil {
		return err
	}
	var plays []replay.Play
	var errs []error
	for _, file := range files {
		r, err := replay.Load(file)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		plays = append(plays, replay.Play{Recording: r, Fault: later})
	}
	if err := errors.Join(errs...); err != nil {
		return coded{exitUsage, err}
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	var mu sync.Mutex
	answered := 0
	matched := replay.Matched(plays...)
	begun := 0
	server, err := replay.New(replay.Config{
		Pick: func(a replay.Asked) (replay.Play, bool) {
			p, ok := matched(a)
			mu.Lock()
			defer mu.Unlock()
			if !ok {
				return p, false
			}
			if begun++; f.cutRequests == 0 || begun <= f.cutRequests {
				p.Fault = first
			}
			return p, true
		},
		Done: func(e replay.Entry) {
			mu.Lock()
			defer mu.Unlock()
			tellReplayed(cmd, f.json, e)
			if e.Recording != "" {
				answered++
			}
			if f.once && answered >= len(plays) {
				cancel()
			}
		},
	})
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", f.listen)
	if err != nil {
		return unavailable(err)
	}
	tellBase(cmd, f.json, ln, basePath(plays), fmt.Sprintf("playing %d of %s", len(plays), strings.Join(files, ", ")))
	return server.Run(ctx, ln)
}

// basePath is where the recorded requests have their API: all of turnfold's adapters
// take an address that ends with a version.
func basePath(plays []replay.Play) string {
	for _, p := range plays {
		path := p.Recording.Request.Path
		for _, suffix := range []string{"/chat/completions", "/responses", "/messages", "/models/"} {
			if at := strings.Index(path, suffix); at >= 0 {
				return path[:at]
			}
		}
	}
	return "/v1"
}

// tellBase prints what belongs into turnfold.yaml.
func tellBase(cmd *cobra.Command, asJSON bool, ln net.Listener, path, what string) {
	base := "http://" + ln.Addr().String() + path
	if asJSON {
		sayJSON(cmd, map[string]string{"base_url": base})
		return
	}
	say(cmd, "base_url: %s", base)
	fmt.Fprintf(cmd.ErrOrStderr(), "%s; Ctrl-C ends it\n", what)
}

func tellReplayed(cmd *cobra.Command, asJSON bool, e replay.Entry) {
	if asJSON {
		sayJSON(cmd, e)
		return
	}
	if e.Recording == "" {
		say(cmd, "#%d %s %s: no recording for this path, 404", e.N, e.Method, e.Path)
		return
	}
	left := ""
	if e.Left {
		left = ", the client went"
	}
	say(cmd, "#%d %s %s: %s, status %d, %d of %d bytes, %s%s", e.N, e.Method, e.Path, e.Recording, e.Status, e.Bytes, e.Of, e.End, left)
}

func newRecordCommand() *cobra.Command {
	var upstream, dir, listen string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "record --upstream URL --dir DIR",
		Short: "Pass requests to a real provider and keep its answers, byte for byte",
		Long: "A reverse proxy that passes every byte on at once and writes a file per request into DIR. Keys\n" +
			"and cookies in headers and addresses are left out of the files. Prompts and answers are kept as\n" +
			"they are; if one seems to hold a key, a warning says so.",
		Example: "  turnfold provider record --upstream https://api.openai.com/v1 --dir recordings\n" +
			"  turnfold provider replay recordings/*.json --cut-event 5",
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if upstream == "" || dir == "" {
				return usagef("name the provider and a folder: turnfold provider record --upstream URL --dir DIR")
			}
			return recordProvider(cmd, upstream, dir, listen, asJSON)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&upstream, "upstream", "", "the provider's base_url, such as https://api.openai.com/v1")
	fl.StringVar(&dir, "dir", "", "folder for the recordings; made if it is missing")
	fl.StringVar(&listen, "listen", "127.0.0.1:9999", "address to serve on; port 0 takes a free one")
	fl.BoolVar(&asJSON, "json", false, "write one JSON object a line")
	return cmd
}

func recordProvider(cmd *cobra.Command, upstream, dir, listen string, asJSON bool) error {
	rec, err := replay.NewRecorder(replay.RecorderConfig{Upstream: upstream, Dir: dir,
		Done: func(r replay.Recorded) { tellRecorded(cmd, asJSON, r) }})
	if err != nil {
		return coded{exitUsage, err}
	}
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return unavailable(err)
	}
	tellBase(cmd, asJSON, ln, rec.Path(), "recording into "+dir)
	// Requests in flight end with the command, and what came of them is kept.
	server := &http.Server{Handler: rec, ReadHeaderTimeout: time.Minute,
		BaseContext: func(net.Listener) context.Context { return cmd.Context() }}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(cmd.Context(), func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), 5*time.Second)
		defer cancel()
		stopped <- server.Shutdown(ctx)
	})
	err = server.Serve(ln)
	if stop() {
		return errors.Join(err, server.Close()) // it ended by itself
	}
	return <-stopped
}

func tellRecorded(cmd *cobra.Command, asJSON bool, r replay.Recorded) {
	if asJSON {
		problem := ""
		if r.Err != nil {
			problem = r.Err.Error()
		}
		sayJSON(cmd, struct {
			Method   string     `json:"method"`
			Path     string     `json:"path"`
			File     string     `json:"file,omitempty"`
			Status   int        `json:"status,omitempty"`
			Bytes    int        `json:"bytes"`
			End      replay.End `json:"end,omitempty"`
			Warnings []string   `json:"warnings,omitempty"`
			Error    string     `json:"error,omitempty"`
		}{r.Method, r.Path, r.File, r.Status, r.Bytes, r.End, slices.Clone(r.Warnings), problem})
		return
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s: %s\n", r.File, w)
	}
	if r.Err != nil {
		say(cmd, "%s %s: not kept: %v", r.Method, r.Path, r.Err)
		return
	}
	say(cmd, "%s %s: status %d, %d bytes, %s, kept in %s", r.Method, r.Path, r.Status, r.Bytes, r.End, r.File)
}

// sayJSON writes a line of data.
func sayJSON(cmd *cobra.Command, v any) {
	line, err := json.Marshal(v)
	if err != nil {
		line = []byte(`{}`) // all that is written here can be encoded
	}
	say(cmd, "%s", line)
}
