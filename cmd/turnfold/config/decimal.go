package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// rateForm is a price: exact, so no exponents and no signs.
var rateForm = regexp.MustCompile(`^([0-9]{1,9})(?:\.([0-9]{1,12}))?$`)

// rateDecimals is how fine a price of a million tokens may be.
const rateDecimals = 6

// rate is the price of a million tokens; none by default.
func rate(at string, to *Rate) setting {
	return setting{path: at,
		set: func(s string) error {
			*to = Rate{}
			if s == "" {
				return nil
			}
			m := rateForm.FindStringSubmatch(s)
			if m == nil {
				return fmt.Errorf("%q is no price of a million tokens; write one as in \"2.50\"", s)
			}
			decimals := strings.TrimRight(m[2], "0")
			if len(decimals) > rateDecimals {
				return fmt.Errorf("%q is finer than a millionth; write at most %d decimals", s, rateDecimals)
			}
			picos, err := strconv.ParseInt(m[1]+decimals+strings.Repeat("0", rateDecimals-len(decimals)), 10, 64)
			*to = Rate{Picos: picos, Given: true, text: s}
			return err
		},
		get: func() string { return to.text }}
}

// fraction is a decimal from 0 to hi.
func fraction(at, usual string, to *float64, hi float64) setting {
	return setting{path: at, usual: usual,
		set: func(s string) error {
			n, err := strconv.ParseFloat(s, 64)
			if err != nil || !(n >= 0 && n <= hi) { // also what is no number
				return fmt.Errorf("%q is no number from 0 to %g; write one, as in %s", s, hi, usual)
			}
			*to = n
			return nil
		},
		get: func() string { return strconv.FormatFloat(*to, 'f', -1, 64) }}
}

var currencyForm = regexp.MustCompile(`^[A-Z]{3}$`)

func currency(at, usual string, to *string) setting {
	s := text(at, usual, to)
	s.set = func(v string) error {
		if !currencyForm.MatchString(v) {
			return fmt.Errorf("%q is no currency; write its three letters, as in USD", v)
		}
		*to = v
		return nil
	}
	return s
}
