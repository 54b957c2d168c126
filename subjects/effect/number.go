package effect

import (
	"fmt"
	"strconv"
	"strings"
)

// exponentMax bounds the adjusted exponent of a number, that is the power of ten
// of its first significant digit. No quantity needs more, and a target that
// expands 1e999999999 would run out of memory.
const exponentMax = 10_000

// exponentHuge is where the exponent as written saturates. No text is so long
// that its digits could bring such an exponent back within exponentMax.
const exponentHuge = 1 << 50

// number returns the one spelling of the decimal value that the JSON number raw
// spells. No value passes through floating point, so no digit is ever lost.
//
// With d the significant digits (no zero at either end), k their count and the
// value 0.d × 10^n, the form is that of RFC 8785 and ECMAScript, for any count
// of digits:
//
//	k <= n <= 21   the digits and n-k zeros                  1200
//	0 < n <= 21    the digits with the point after the n-th   12.5
//	-6 < n <= 0    "0.", -n zeros, the digits                 0.0012
//	otherwise      d.ddde±(n-1)                               1.2e+30
//
// Zero is "0", without a sign. The form is injective: d, n and the sign can be
// read back from it.
func number(raw string) (string, error) {
	body, negative := strings.CutPrefix(raw, "-")
	mantissa, exponentText := body, ""
	if i := strings.IndexAny(body, "eE"); i >= 0 {
		mantissa, exponentText = body[:i], body[i+1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := whole + fraction
	significant := strings.TrimLeft(digits, "0")
	if significant == "" {
		return "0", nil
	}
	n := int64(len(whole)) - int64(len(digits)-len(significant)) + exponent(exponentText)
	significant = strings.TrimRight(significant, "0")
	if n-1 > exponentMax || n-1 < -exponentMax {
		return "", fmt.Errorf("number beyond 1e±%d", exponentMax)
	}
	sign := ""
	if negative {
		sign = "-"
	}
	return sign + layout(significant, int(n)), nil
}

// layout writes 0.d × 10^n.
func layout(d string, n int) string {
	k := len(d)
	switch {
	case k <= n && n <= 21:
		return d + strings.Repeat("0", n-k)
	case 0 < n && n <= 21:
		return d[:n] + "." + d[n:]
	case -6 < n && n <= 0:
		return "0." + strings.Repeat("0", -n) + d
	}
	point := ""
	if k > 1 {
		point = "."
	}
	return fmt.Sprintf("%s%s%se%+d", d[:1], point, d[1:], n-1)
}

// exponent reads the exponent part of a JSON number, saturated at exponentHuge.
func exponent(text string) int64 {
	if text == "" {
		return 0
	}
	e, err := strconv.ParseInt(text, 10, 64) // a range error leaves the nearest int64
	if err != nil || e > exponentHuge || e < -exponentHuge {
		if strings.HasPrefix(text, "-") {
			return -exponentHuge
		}
		return exponentHuge
	}
	return e
}
