// Package demo tells turnfold's main stories on real parts: HTTP over sockets, a model
// provider that really resets its connection, tools that count what was done to them,
// and a turnfold that runs as a process of its own and is killed for real.
//
// Invariant: every figure is counted by the provider or a tool, the world outside;
// none is taken from what turnfold says of itself.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/turnfold/turnfold/cmd/internal/stage"
)

// Config says how the demo runs.
type Config struct {
	Binary   string    // the turnfold to run; the demo starts it as "serve"
	Scenario string    // one of Scenarios; empty means all
	Keep     bool      // leave the working folder, with stores and logs
	Progress io.Writer // one line per stage; nil for silence
}

// Scenarios are the stories, in the order in which they are told.
var Scenarios = []string{"policies", "kill", "loop"}

// ErrScenario: the name of no scenario.
var ErrScenario = errors.New("there is no scenario")

// Report is the whole outcome, as `turnfold demo --json` prints it.
type Report struct {
	Policies []Policy `json:"policies,omitempty"`
	Kill     *Kill    `json:"kill,omitempty"`
	Loop     *Loop    `json:"loop,omitempty"`
	Audit    string   `json:"audit"` // clean, or what is wrong
	Folder   string   `json:"folder,omitempty"`
	show     string
}

// Policy is how one way of handling a broken stream came out.
type Policy struct {
	Name     string         `json:"name"`
	Text     string         `json:"text"`    // what the user was left looking at
	Clean    bool           `json:"clean"`   // it is exactly the winning answer
	Refunds  int            `json:"refunds"` // counted by the payments tool
	IDs      []string       `json:"provider_ids"`
	Keys     []string       `json:"keys"`     // idempotency keys that the payments tool saw
	Attempts []stage.Tokens `json:"attempts"` // counted by the provider
}

// Kill is how a refund came out whose process was killed between payment and record.
type Kill struct {
	Kills            int    `json:"kills"`
	Sent             int    `json:"sent"`    // requests that reached the payments tool
	Refunds          int    `json:"refunds"` // refunds that it made
	DuplicateEffects int    `json:"duplicate_effects"`
	Key              string `json:"key"`
	Text             string `json:"text"`
}

// Loop is how fourteen rewordings of one timed-out call came out.
type Loop struct {
	NaiveTickets int    `json:"naive_tickets"`
	Tickets      int    `json:"tickets"`    // in the world, under turnfold
	CallsSent    int    `json:"calls_sent"` // requests that reached the ticket tool
	ToolsOff     bool   `json:"tools_off"`  // the last model request offered no tools
	Text         string `json:"text"`
}

// Wrong lists what did not come out as the product promises.
func (r Report) Wrong() []string {
	var out []string
	for _, p := range r.Policies {
		if p.Name == "turnfold" && (!p.Clean || p.Refunds != 1) {
			out = append(out, fmt.Sprintf("turnfold: clean %v, %d refunds", p.Clean, p.Refunds))
		}
	}
	if k := r.Kill; k != nil && (k.Refunds != 1 || k.DuplicateEffects != 0) {
		out = append(out, fmt.Sprintf("kill: %d refunds", k.Refunds))
	}
	if l := r.Loop; l != nil && (l.Tickets != 1 || !l.ToolsOff) {
		out = append(out, fmt.Sprintf("loop: %d tickets, tools off %v", l.Tickets, l.ToolsOff))
	}
	if r.Audit != "clean" {
		out = append(out, "audit: "+r.Audit)
	}
	return out
}

// Run tells the stories. What it started has ended when it returns.
func Run(ctx context.Context, cfg Config) (report Report, err error) {
	if cfg.Scenario != "" && !slices.Contains(Scenarios, cfg.Scenario) {
		return report, fmt.Errorf("%w %q; there are %v", ErrScenario, cfg.Scenario, Scenarios)
	}
	if cfg.Progress == nil {
		cfg.Progress = io.Discard
	}
	dir, err := os.MkdirTemp("", "turnfold-demo-")
	if err != nil {
		return report, err
	}
	if cfg.Keep {
		report.Folder = dir
	} else {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	report.Audit = "clean"
	d := &demo{cfg: cfg, dir: dir, report: &report}
	stages := map[string]func(context.Context) error{"policies": d.policies, "kill": d.kill, "loop": d.loop}
	for _, name := range Scenarios {
		if cfg.Scenario != "" && cfg.Scenario != name {
			continue
		}
		began := time.Now()
		fmt.Fprintf(cfg.Progress, "%-9s …", name)
		if err := stages[name](ctx); err != nil {
			fmt.Fprintln(cfg.Progress)
			return report, fmt.Errorf("scenario %s: %w", name, err)
		}
		fmt.Fprintf(cfg.Progress, " %.1f s\n", time.Since(began).Seconds())
	}
	return report, nil
}

type demo struct {
	cfg    Config
	dir    string
	report *Report
}

const (
	order    = "ORD-7781"
	question = "My bike came damaged. Please refund order " + order + "."
	// answer is the winning answer of the refund story, over both of its steps.
	answer = "Sorry about your order! I am refunding it now. Order " + order + " is refunded."
)

// policies runs the same broken turn under three ways of handling it.
func (d *demo) policies(ctx context.Context) error {
	for _, name := range []string{"naive", "reset-only", "turnfold"} {
		desk, pay := newHelpDesk(), newPayments()
		var text string
		var err error
		if name == "turnfold" {
			text, err = d.refund(ctx, "policies", desk, pay, nil)
		} else {
			text, err = client{api: desk.API(), pay: pay.URL(), resets: name == "reset-only"}.run(ctx)
		}
		desk.Close()
		pay.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		d.report.Policies = append(d.report.Policies, Policy{Name: name, Text: text, Clean: text == answer,
			Refunds: pay.Effects(), IDs: desk.IDs(pay.Sent()), Keys: pay.Keys(), Attempts: desk.Tokens()})
	}
	return nil
}

// refund runs the refund turn on a turnfold of its own. killAfter, if set, is asked for
// a turnfold to kill when the payment is made and its answer is still to come.
func (d *demo) refund(ctx context.Context, name string, desk *helpDesk, pay *stage.Ledger, killAfter func(*stage.Product)) (string, error) {
	p, err := stage.NewProduct(d.cfg.Binary, filepath.Join(d.dir, name), desk.API(), nil, stage.Tool{
		Name: "issue_refund", Identity: []string{"order_id"}, URL: pay.URL(), Timeout: 5 * time.Second,
		Members: map[string]string{"order_id": "string", "amount": "integer", "note": "string"}})
	if err != nil {
		return "", err
	}
	defer p.Kill()
	if err := p.Start(ctx); err != nil {
		return "", err
	}
	if killAfter != nil {
		killAfter(p)
	}
	turn := "demo-" + name
	text, err := p.Turn(ctx, turn, question)
	if err != nil {
		return "", err
	}
	if err := d.audit(ctx, p, turn); err != nil {
		return "", err
	}
	return text, p.Stop()
}

// audit asks for the turn's state and verdict.
func (d *demo) audit(ctx context.Context, p *stage.Product, turn string) error {
	verdict, err := p.Audit(ctx, turn)
	if err != nil {
		return err
	}
	if verdict != "" {
		d.report.Audit = turn + ": " + verdict
	}
	if d.report.show == "" {
		d.report.show, err = p.Show(ctx, turn)
	}
	return err
}

// kill makes the payment, kills turnfold before it hears of it, and starts it again.
func (d *demo) kill(ctx context.Context) error {
	desk, pay := newHelpDesk(), newPayments()
	defer desk.Close()
	defer pay.Close()
	kills := 0
	restarted := make(chan error, 1)
	text, err := d.refund(ctx, "kill", desk, pay, func(p *stage.Product) {
		pay.AfterEffect(func() {
			kills++
			p.Kill()
			go func() { restarted <- p.Start(ctx) }()
		})
	})
	if kills > 0 {
		err = errors.Join(err, <-restarted)
	}
	if err != nil {
		return err
	}
	keys := pay.Keys()
	k := &Kill{Kills: kills, Sent: len(pay.Sent()), Refunds: pay.Effects(), DuplicateEffects: pay.Effects() - 1, Text: text}
	if len(keys) > 0 {
		k.Key = keys[0]
	}
	d.report.Kill = k
	return nil
}

// loop lets a ticket tool commit and answer too late, fourteen times under a naive
// client, and then under turnfold.
func (d *demo) loop(ctx context.Context) error {
	bot, desk := newTicketBot(), newTickets()
	err := naiveTickets(ctx, bot.API(), desk.URL())
	naive := desk.Effects()
	bot.Close()
	desk.Close()
	if err != nil {
		return fmt.Errorf("naive: %w", err)
	}
	bot, desk = newTicketBot(), newTickets()
	defer bot.Close()
	defer desk.Close()
	p, err := stage.NewProduct(d.cfg.Binary, filepath.Join(d.dir, "loop"), bot.API(), nil, stage.Tool{
		Name: "create_ticket", Identity: []string{"customer", "order"}, URL: desk.URL(), Timeout: ticketTimeout,
		Members: map[string]string{"customer": "string", "order": "string", "summary": "string"}})
	if err != nil {
		return err
	}
	defer p.Kill()
	if err := p.Start(ctx); err != nil {
		return err
	}
	text, err := p.Turn(ctx, "demo-loop", "My helmet never came. Please open a ticket.")
	if err != nil {
		return err
	}
	if err := d.audit(ctx, p, "demo-loop"); err != nil {
		return err
	}
	d.report.Loop = &Loop{NaiveTickets: naive, Tickets: desk.Effects(), CallsSent: len(desk.Sent()), ToolsOff: bot.toolsOff(), Text: text}
	return p.Stop()
}
