package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/turnfold/turnfold/executor/tool/strict"
)

// setting is one single-valued member: how its text is read and written.
type setting struct {
	path  string // place in the file; dots nest
	usual string // the default, as text
	text  bool   // the file must give text
	whole bool   // the file must give a number
	file  bool   // it is a path: relative to the configuration's folder
	set   func(string) error
	get   func() string
}

// envName is the variable that overrides a setting.
func (s setting) envName() string {
	return "TURNFOLD_" + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(s.path))
}

// settings lists the single-valued members in the order in which they are printed.
// Providers and routes have names of their own and are not among them.
func (c *Config) settings() []setting {
	const second, day = time.Second, 24 * time.Hour
	return []setting{
		text("listen", "127.0.0.1:8787", &c.Listen),
		text("nats.url", "", &c.NATS.URL),
		path("nats.store_dir", "turnfold-data", &c.NATS.StoreDir),
		path("nats.creds", "", &c.NATS.Creds),
		path("nats.nkey", "", &c.NATS.NKey),
		text("nats.user", "", &c.NATS.User),
		text("nats.password_env", "", &c.NATS.PasswordEnv),
		word("nats.sync", "default", &c.NATS.Sync, syncs),
		path("nats.tls.ca", "", &c.NATS.TLS.CA),
		path("nats.tls.cert", "", &c.NATS.TLS.Cert),
		path("nats.tls.key", "", &c.NATS.TLS.Key),
		number("partitions", "4", &c.Partitions, 1, 256),
		number("replicas", "1", &c.Replicas, 1, 5),
		flag("streams.manage", "true", &c.Streams.Manage),
		number("retry.attempts_per_step", "3", &c.Retry.AttemptsPerStep, 1, 1000),
		number("retry.attempts_per_turn", "8", &c.Retry.AttemptsPerTurn, 1, 10_000),
		number("retry.tokens_per_turn", "0", &c.Retry.TokensPerTurn, 0, 1_000_000_000_000),
		fraction("retry.budget.fraction", "0.2", &c.Retry.Budget.Fraction, 1000),
		number("retry.budget.per_second", "10", &c.Retry.Budget.PerSecond, 0, 1_000_000),
		duration("retry.backoff.base", "500ms", &c.Retry.Backoff.Base, time.Millisecond, time.Hour),
		duration("retry.backoff.max", "20s", &c.Retry.Backoff.Max, time.Millisecond, time.Hour),
		duration("retry.backoff.retry_after_max", "60s", &c.Retry.Backoff.RetryAfterMax, 0, time.Hour),
		word("retry.after_text", "reset", &c.Retry.AfterText, afterTexts),
		duration("turn.deadline", "10m", &c.Turn.Deadline, second, 30*day),
		number("turn.calls", "64", &c.Turn.Calls, 1, 100_000),
		currency("currency", "USD", &c.Currency),
		path("tools_file", "", &c.ToolsFile),
		size("limits.body_bytes", "4MiB", &c.Limits.BodyBytes, 1<<10, 64<<20),
		number("limits.turns_per_tenant", "0", &c.Limits.TurnsPerTenant, 0, 10_000_000),
		number("limits.concurrent_steps", "64", &c.Limits.ConcurrentSteps, 1, 100_000),
		number("limits.concurrent_calls", "64", &c.Limits.ConcurrentCalls, 1, 100_000),
		number("limits.concurrent_calls_per_tenant", "0", &c.Limits.ConcurrentCallsPerTenant, 0, 100_000),
		word("log.level", "info", &c.Log.Level, levels),
		word("log.format", "json", &c.Log.Format, formats),
		duration("retention.events", "0s", &c.Retention.Events, 0, 36500*day),
		duration("retention.outputs", "0s", &c.Retention.Outputs, 0, 36500*day),
		duration("retention.effects", "0s", &c.Retention.Effects, 0, 36500*day),
		duration("lease.ttl", "5s", &c.Lease.TTL, second, 5*time.Minute),
		duration("alive", "5s", &c.Alive, 100*time.Millisecond, 5*time.Minute),
		duration("patience", "10s", &c.Patience, 100*time.Millisecond, time.Hour),
		duration("shutdown_grace", "30s", &c.ShutdownGrace, 0, day),
		text("cors_origins", "", &c.CORSOrigins),
		path("tls.cert", "", &c.TLS.Cert),
		path("tls.key", "", &c.TLS.Key),
		path("tokens_file", "", &c.TokensFile),
	}
}

// settings lists a provider's members except its headers.
func (p *Provider) settings() []setting {
	const hour = time.Hour
	at := "providers." + p.Name + "."
	return []setting{
		word(at+"api", "", &p.API, APIs),
		text(at+"base_url", "", &p.BaseURL),
		text(at+"api_key_env", "", &p.APIKeyEnv),
		text(at+"model", "", &p.Model),
		number(at+"max_output_tokens", "4096", &p.MaxOutputTokens, 1, 10_000_000),
		duration(at+"stall_timeout", "60s", &p.StallTimeout, 10*time.Millisecond, hour),
		duration(at+"connect_timeout", "10s", &p.ConnectTimeout, 10*time.Millisecond, hour),
		duration(at+"header_timeout", "60s", &p.HeaderTimeout, 10*time.Millisecond, hour),
		duration(at+"total_timeout", "10m", &p.TotalTimeout, 10*time.Millisecond, 24*hour),
		rate(at+"price.input", &p.Price.Input),
		rate(at+"price.cache_read", &p.Price.CacheRead),
		rate(at+"price.output", &p.Price.Output),
	}
}

func text(at, usual string, to *string) setting {
	return setting{path: at, usual: usual, text: true,
		set: func(s string) error { *to = s; return nil },
		get: func() string { return *to }}
}

func path(at, usual string, to *string) setting {
	s := text(at, usual, to)
	s.file = true
	return s
}

func word(at, usual string, to *string, words []string) setting {
	s := text(at, usual, to)
	s.set = func(v string) error {
		if slices.Contains(words, v) {
			*to = v
			return nil
		}
		if near := strict.Nearest(v, words); near != "" {
			return fmt.Errorf("%q is not known; did you mean %s? known are %s", v, near, strings.Join(words, ", "))
		}
		return fmt.Errorf("%q is not known; write one of %s", v, strings.Join(words, ", "))
	}
	return s
}

func number(at, usual string, to *int, lo, hi int) setting {
	return setting{path: at, usual: usual, whole: true,
		set: func(s string) error {
			n, err := strconv.Atoi(s)
			if err != nil || n < lo || n > hi {
				return fmt.Errorf("%q is no whole number from %d to %d; write one", s, lo, hi)
			}
			*to = n
			return nil
		},
		get: func() string { return strconv.Itoa(*to) }}
}

func flag(at, usual string, to *bool) setting {
	return setting{path: at, usual: usual,
		set: func(s string) error {
			if s != "true" && s != "false" {
				return fmt.Errorf("%q is neither true nor false; write one of them", s)
			}
			*to = s == "true"
			return nil
		},
		get: func() string { return strconv.FormatBool(*to) }}
}

func duration(at, usual string, to *time.Duration, lo, hi time.Duration) setting {
	return setting{path: at, usual: usual, text: true,
		set: func(s string) (err error) {
			d, err := strict.ParseDuration(s, lo, hi)
			if err == nil {
				*to = d
			}
			return err
		},
		get: func() string { return strict.Short(*to) }}
}

// units of a size. Those of ten are taken too, because people write them.
var units = []struct {
	name  string
	bytes int
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}, {"", 1}}

func size(at, usual string, to *int, lo, hi int) setting {
	return setting{path: at, usual: usual,
		set: func(s string) error {
			n, err := parseSize(s)
			if err != nil || n < lo || n > hi {
				return fmt.Errorf("%q is no size from %s to %s; write one as in 4MiB", s, formatSize(lo), formatSize(hi))
			}
			*to = n
			return nil
		},
		get: func() string { return formatSize(*to) }}
}

func parseSize(s string) (int, error) {
	for _, u := range units {
		if digits, ok := strings.CutSuffix(s, u.name); ok {
			n, err := strconv.Atoi(strings.TrimSpace(digits))
			if err == nil && n > 0 && n <= (1<<40)/u.bytes {
				return n * u.bytes, nil
			}
		}
	}
	return 0, errors.New("no size")
}

func formatSize(n int) string {
	switch {
	case n%(1<<20) == 0:
		return fmt.Sprintf("%dMiB", n>>20)
	case n%(1<<10) == 0:
		return fmt.Sprintf("%dKiB", n>>10)
	}
	return strconv.Itoa(n)
}

// resolve makes a path of the file one of the process.
func resolve(folder, p string) string {
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(folder, p)
}
