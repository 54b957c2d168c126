package fold

import (
	"math"
	"math/bits"

	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

// cacheApart tells for each API whether tokens read from its cache are counted beside
// the input tokens, or are a part of them. Reasoning is a part of the output tokens in
// all of them. Source: docs/retries.md, "Costs".
var cacheApart = map[string]bool{
	"openai-chat":        false, // prompt_tokens_details.cached_tokens is of prompt_tokens
	"openai-responses":   false, // input_tokens_details.cached_tokens is of input_tokens
	"gemini":             false, // cachedContentTokenCount is of promptTokenCount
	"anthropic-messages": true,  // cache_read_input_tokens comes beside input_tokens
}

// nanosPicos is how many picos a nano has.
const nanosPicos = 1000

// cost is what an attempt's reported tokens cost at its entry's price, in nanos,
// rounded half up once. What was not reported costs nothing here: it is not guessed.
func cost(e event.Entry, u event.Usage) int64 {
	input, cached := max(u.Input, 0), max(u.CacheRead, 0)
	if !cacheApart[e.API] {
		input -= min(input, cached)
	}
	hi, lo := uint64(0), uint64(nanosPicos/2)
	for _, part := range [][2]int64{{input, e.Price.Input}, {cached, e.Price.CacheRead}, {u.Output, e.Price.Output}} {
		h, l := bits.Mul64(uint64(max(part[0], 0)), uint64(max(part[1], 0)))
		var carry uint64
		lo, carry = bits.Add64(lo, l, 0)
		hi, _ = bits.Add64(hi, h, carry) // three products of 126 bits: no overflow
	}
	if hi >= nanosPicos {
		return math.MaxInt64
	}
	nanos, _ := bits.Div64(hi, lo, nanosPicos)
	return int64(min(nanos, math.MaxInt64))
}

// plus adds counts that are not negative; what a provider reports is foreign, and must
// not turn a sum around.
func plus(a, b int64) int64 {
	if b = max(b, 0); a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// tokens tells what an attempt used.
func (a *Attempt) tokens() feed.Tokens {
	u := a.Usage
	t := feed.Tokens{Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, Reasoning: u.Reasoning, Partial: u.Partial}
	if t.Currency = a.Entry.Price.Currency; t.Currency != "" {
		t.Cost = cost(a.Entry, u)
	}
	return t
}

// requested reports whether the provider was asked.
func (a *Attempt) requested() bool { return a.Started != nil && !a.Unsent }

// used adds up what the turn's requests reported, those of abandoned attempts included:
// they are billed as well. Counts that are missing are not guessed; Partial says so.
func (s *State) used() feed.Totals {
	var sum feed.Totals
	unpriced := 0
	for _, st := range s.Steps {
		for _, a := range st.Attempts {
			if !a.requested() {
				continue
			}
			t := a.tokens()
			sum.Input += t.Input
			sum.Output += t.Output
			sum.CacheRead += t.CacheRead
			sum.Reasoning += t.Reasoning
			sum.Partial = sum.Partial || t.Partial
			sum.Cost = plus(sum.Cost, t.Cost)
			if t.Currency == "" {
				unpriced++
			} else {
				sum.Currency = t.Currency
			}
			if a.Outcome != "" && a.N != st.Committed {
				sum.WastedInput = plus(sum.WastedInput, t.Input)
				sum.WastedOutput = plus(sum.WastedOutput, t.Output)
				sum.WastedCost = plus(sum.WastedCost, t.Cost)
			}
		}
	}
	if sum.Currency != "" {
		sum.Unpriced = unpriced
	}
	return sum
}

// said is used as the turn's rules have it on the feed.
func (f *folder) said() feed.Totals {
	sum := f.used()
	if f.Opened.Rules < 1 {
		sum.WastedInput, sum.WastedOutput = 0, 0
	}
	return sum
}

// reported is the number of input and output tokens that count against the turn's cap.
func (s *State) reported() int64 {
	var sum int64
	for _, st := range s.Steps {
		for _, a := range st.Attempts {
			sum = plus(plus(sum, a.Usage.Input), a.Usage.Output)
		}
	}
	return sum
}

// outOfTokens reports whether the turn has reached its cap of tokens.
func (s *State) outOfTokens() bool {
	limit := s.Opened.Policy.TokensPerTurn
	return limit > 0 && s.reported() >= limit
}

// started counts the requests that providers were sent.
func (s *State) started() int {
	n := 0
	for _, st := range s.Steps {
		for _, a := range st.Attempts {
			if a.requested() {
				n++
			}
		}
	}
	return n
}
