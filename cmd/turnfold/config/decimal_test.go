package config

import (
	"bytes"
	"strings"
	"testing"
)

func TestPrices(t *testing.T) {
	for text, want := range map[string]Price{
		`{input: "2.50", cache_read: "1.25", output: "10.00"}`: {Input: Rate{Picos: 2_500_000}, CacheRead: Rate{Picos: 1_250_000}, Output: Rate{Picos: 10_000_000}},
		`{input: 2.5, output: 10}`:                             {Input: Rate{Picos: 2_500_000}, CacheRead: Rate{Picos: 2_500_000}, Output: Rate{Picos: 10_000_000}},
		`{input: "0.0375", cache_read: 0, output: "0.000001"}`: {Input: Rate{Picos: 37_500}, Output: Rate{Picos: 1}},
		`{input: "999999999", output: "0.1000000000"}`:         {Input: Rate{Picos: 999_999_999_000_000}, CacheRead: Rate{Picos: 999_999_999_000_000}, Output: Rate{Picos: 100_000}},
	} {
		c, err := load(t, "providers: {main: {api: openai-chat, model: m, price: "+text+"}}\ncurrency: EUR\n", nil, nil)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		p := c.Providers["main"].Price
		if !p.Given() || p.Input.Picos != want.Input.Picos || p.CacheRead.Picos != want.CacheRead.Picos || p.Output.Picos != want.Output.Picos || c.Currency != "EUR" {
			t.Errorf("%s: %+v %s", text, p, c.Currency)
		}
		var out bytes.Buffer
		if err := c.Print(&out); err != nil {
			t.Fatal(err)
		}
		again, err := load(t, out.String(), nil, nil)
		if err != nil || again.Providers["main"].Price.CacheRead.Picos != p.CacheRead.Picos || again.Providers["main"].Price.Input != p.Input {
			t.Errorf("%s is read again as %+v, %v", text, again, err)
		}
	}
	c, err := load(t, one, nil, nil)
	if err != nil || c.Providers["main"].Price.Given() || c.Currency != "USD" || c.Retry.TokensPerTurn != 0 ||
		c.Retry.Budget != (RetryBudget{0.2, 10}) {
		t.Errorf("defaults: %+v, %v", c, err)
	}
}

func TestRetrySettings(t *testing.T) {
	c, err := load(t, "retry: {tokens_per_turn: 200000, budget: {fraction: 1.5, per_second: 0}}\n",
		map[string]string{"TURNFOLD_RETRY_BUDGET_FRACTION": "0"}, nil)
	if err != nil || c.Retry.TokensPerTurn != 200_000 || c.Retry.Budget != (RetryBudget{}) {
		t.Errorf("%+v, %v", c, err)
	}
	for text, want := range map[string]string{
		"retry: {budget: {fraction: -0.1}}":                                             `turnfold.yaml:1: retry.budget.fraction: "-0.1" is no number from 0 to 1000; write one, as in 0.2`,
		"retry: {budget: {fraction: .nan}}":                                             `turnfold.yaml:1: retry.budget.fraction: ".nan" is no number`,
		"retry: {budget: {fraction: NaN}}":                                              `turnfold.yaml:1: retry.budget.fraction: "NaN" is no number`,
		"retry: {budget: {per_second: -1}}":                                             `turnfold.yaml:1: retry.budget.per_second: "-1" is no whole number from 0 to 1000000`,
		"retry: {budget: {per_second: 0.5}}":                                            `turnfold.yaml:1: retry.budget.per_second: "0.5" is no whole number`,
		"retry: {tokens_per_turn: -5}":                                                  `turnfold.yaml:1: retry.tokens_per_turn: "-5" is no whole number`,
		"currency: dollars":                                                             `turnfold.yaml:1: currency: "dollars" is no currency; write its three letters, as in USD`,
		"providers: {a: {api: gemini, model: m, price: {output: 1}}}":                   `providers.a.price: has no input price`,
		"providers: {a: {api: gemini, model: m, price: {input: 1}}}":                    `providers.a.price: has an input price and no output price`,
		"providers: {a: {api: gemini, model: m, price: {input: -1, output: 1}}}":        `providers.a.price.input: "-1" is no price of a million tokens; write one as in "2.50"`,
		"providers: {a: {api: gemini, model: m, price: {input: 1e3, output: 1}}}":       `providers.a.price.input: "1e3" is no price`,
		"providers: {a: {api: gemini, model: m, price: {inptu: 1, output: 1}}}":         `providers.a.price.inptu: unknown key; did you mean input?`,
		"providers: {a: {api: gemini, model: m, price: {input: 1.0000001, output: 1}}}": `"1.0000001" is finer than a millionth; write at most 6 decimals`,
	} {
		if _, err := load(t, text+"\n", nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v\nwant\n%s", text, err, want)
		}
	}
}
