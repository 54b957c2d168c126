package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/turnfold/turnfold/cmd/turnfold/config"
	"github.com/turnfold/turnfold/executor/tool"
	"github.com/turnfold/turnfold/streamer"
	"github.com/turnfold/turnfold/streamer/provider"
	"github.com/turnfold/turnfold/streamer/provider/anthropic"
	"github.com/turnfold/turnfold/streamer/provider/gemini"
	"github.com/turnfold/turnfold/streamer/provider/openaichat"
	"github.com/turnfold/turnfold/streamer/provider/openairesponses"
	"github.com/turnfold/turnfold/subjects/effect"
	"github.com/turnfold/turnfold/subjects/event"
)

// adapters speak the model APIs, by their name in the configuration.
var adapters = func() map[string]provider.API {
	out := map[string]provider.API{}
	for _, a := range []provider.API{openaichat.API{}, openairesponses.API{}, anthropic.API{}, gemini.API{}} {
		out[a.Name()] = a
	}
	return out
}()

// providersOf makes what streamers call. Keys are read for each attempt, so that a
// rotated one needs no restart.
func providersOf(cfg *config.Config) (map[string]streamer.Provider, error) {
	out := map[string]streamer.Provider{}
	for name, p := range cfg.Providers {
		api, ok := adapters[p.API]
		if !ok {
			return nil, fmt.Errorf("provider %s: this build does not speak %s, only %s", name, p.API,
				strings.Join(slices.Sorted(maps.Keys(adapters)), ", "))
		}
		out[name] = streamer.Provider{API: api, Endpoint: func() (provider.Endpoint, error) {
			key, err := p.Key(os.LookupEnv)
			if err != nil {
				return provider.Endpoint{}, err
			}
			return provider.Endpoint{BaseURL: p.BaseURL, Key: key, Headers: p.Headers,
				ConnectTimeout: p.ConnectTimeout, HeaderTimeout: p.HeaderTimeout,
				StallTimeout: p.StallTimeout, TotalTimeout: p.TotalTimeout}, nil
		}}
	}
	return out, nil
}

// routesOf spells out which model each attempt asks.
func routesOf(cfg *config.Config) map[string][]event.Entry {
	out := map[string][]event.Entry{}
	for route, names := range cfg.Routes {
		for _, name := range names {
			p := cfg.Providers[name]
			out[route] = append(out[route], event.Entry{Provider: name, API: p.API, Model: p.Model, MaxOutputTokens: p.MaxOutputTokens,
				Price: priceOf(cfg, p)})
		}
	}
	return out
}

// priceOf pins what a provider's tokens cost; nothing if it has no price.
func priceOf(cfg *config.Config, p config.Provider) event.Price {
	if !p.Price.Given() {
		return event.Price{}
	}
	return event.Price{Currency: cfg.Currency, Input: p.Price.Input.Picos,
		CacheRead: p.Price.CacheRead.Picos, Output: p.Price.Output.Picos}
}

func policyOf(cfg *config.Config) event.Policy {
	return event.Policy{
		AttemptsPerStep: cfg.Retry.AttemptsPerStep, AttemptsPerTurn: cfg.Retry.AttemptsPerTurn,
		BackoffBaseMS: cfg.Retry.Backoff.Base.Milliseconds(), BackoffMaxMS: cfg.Retry.Backoff.Max.Milliseconds(),
		RetryAfterMaxMS: cfg.Retry.Backoff.RetryAfterMax.Milliseconds(), AfterText: cfg.Retry.AfterText,
		CallsPerTurn: cfg.Turn.Calls, TokensPerTurn: int64(cfg.Retry.TokensPerTurn), DeadlineMS: cfg.Turn.Deadline.Milliseconds(),
		AliveMS: cfg.Alive.Milliseconds(), PatienceMS: cfg.Patience.Milliseconds(),
	}
}

// pinned gives the declarations in the form that turns keep.
func pinned(set *tool.Set) []event.Tool {
	var out []event.Tool
	for _, d := range set.All() {
		t := event.Tool{
			Name: d.Name, Description: d.Description, Parameters: d.Parameters, Effect: string(d.Effect),
			IdentityAll: d.Identity.All, Identity: d.Identity.Fields, Repeat: string(d.Repeat),
			TimeoutMS: d.Timeout.Milliseconds(), Cap: d.Cap, Rows: d.Rows, Approval: string(d.Approval),
			Redact: d.Redact, Card: d.Card,
		}
		if d.Approval == tool.ApprovalAlways {
			t.ApprovalTimeoutMS = d.ApprovalTimeout.Milliseconds()
		}
		if d.Scope != effect.ScopeTurn {
			t.Scope, t.WindowMS = d.Scope, d.Window.Milliseconds()
		}
		out = append(out, t)
	}
	return out
}
