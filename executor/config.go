package executor

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/turnfold/turnfold/executor/tool"
	"github.com/turnfold/turnfold/keystore"
	"github.com/turnfold/turnfold/reducer/turns"
	"github.com/turnfold/turnfold/subjects/jet"
)

// Defaults of Config.
const (
	defaultConcurrency    = 64
	defaultVerifyBackoff  = time.Second
	defaultLeaseTTL       = 5 * time.Second
	defaultAckWait        = 5 * time.Second
	defaultGrace          = 20 * time.Second
	defaultResultBytesMax = 256 << 10
	defaultProgressEvery  = 4 * time.Second
)

// Config is what an Executor needs.
type Config struct {
	Conn  *jet.Conn
	Store *keystore.Store // of this host alone
	Tools *tool.Set
	// Runners run tools by name, and are the caller's to close. Nil: New makes those
	// that the declarations ask for, with RunnerConfig, and closes them.
	Runners      map[string]tool.Runner
	RunnerConfig tool.RunnerConfig
	Turns        *turns.Reader
	// Partitions of the deployment.
	Partitions int
	// Instance names this host in facts and is kept across restarts; Incarnation names
	// this process in logs.
	Instance, Incarnation string
	// Concurrency is how many effects run at a time. Zero means 64.
	Concurrency int
	// TenantConcurrency is how many of them may be of one tenant. Zero: as many as there
	// are; places are dealt out to tenants in turn in any case.
	TenantConcurrency int
	// VerifyBackoff is the wait before the first question of a verify; each further one
	// is twice as long, up to 15 minutes. Zero means 1s.
	VerifyBackoff time.Duration
	// LeaseTTL is how long a claim's subject must stand still before others take its
	// holder for dead. It must be the same on all hosts. Zero means 5s.
	LeaseTTL time.Duration
	// AckWait is after how long without a sign of life a command is handed to another
	// executor. Zero means 5s.
	AckWait time.Duration
	// Grace is how long running effects may go on after Run was asked to end. Zero
	// means 20s.
	Grace time.Duration
	// ResultBytesMax cuts results in settled events, with a note. Zero means 256 KiB.
	ResultBytesMax int
	// Members are the executors of the deployment, this one among them: after a loss of
	// the log's end, each waits for what the others have to state. Nil: there is no other.
	Members    *jet.Membership
	Log        zerolog.Logger
	Registerer prometheus.Registerer // nil: no metrics are exported
}

func (c Config) withDefaults() Config {
	c.Runners = maps.Clone(c.Runners)
	if c.Concurrency == 0 {
		c.Concurrency = defaultConcurrency
	}
	if c.VerifyBackoff == 0 {
		c.VerifyBackoff = defaultVerifyBackoff
	}
	if c.LeaseTTL == 0 {
		c.LeaseTTL = defaultLeaseTTL
	}
	if c.AckWait == 0 {
		c.AckWait = defaultAckWait
	}
	if c.Grace == 0 {
		c.Grace = defaultGrace
	}
	if c.ResultBytesMax == 0 {
		c.ResultBytesMax = defaultResultBytesMax
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	need(c.Conn != nil, "Conn is nil")
	need(c.Store != nil, "Store is nil")
	need(c.Turns != nil, "Turns is nil")
	if c.Runners != nil {
		for _, name := range c.Tools.Names() {
			need(c.Runners[name] != nil, "Runners has none for %s", name)
		}
	}
	need(c.Partitions > 0, "Partitions is %d; it must be the deployment's", c.Partitions)
	need(c.Instance != "", "Instance is empty; facts would name no host")
	need(c.Incarnation != "", "Incarnation is empty; other hosts could not tell this process from the one before")
	need(c.Concurrency > 0, "Concurrency is %d; it must be positive", c.Concurrency)
	need(c.TenantConcurrency >= 0, "TenantConcurrency is %d; it must not be negative", c.TenantConcurrency)
	need(c.VerifyBackoff > 0, "VerifyBackoff %s is negative", c.VerifyBackoff)
	need(c.LeaseTTL >= 50*time.Millisecond, "LeaseTTL %s is under 50ms; renewals could not keep up", c.LeaseTTL)
	need(c.AckWait >= 50*time.Millisecond, "AckWait %s is under 50ms; signs of life could not keep up", c.AckWait)
	need(c.Grace > 0, "Grace %s is negative", c.Grace)
	need(c.ResultBytesMax > 0 && c.ResultBytesMax <= bodyBytesMax,
		"ResultBytesMax is %d; it must be 1 to %d", c.ResultBytesMax, bodyBytesMax)
	return errors.Join(errs...)
}
