package bootstrap

import (
	"fmt"
	"strconv"
	"strings"
)

// duration is protobuf's: two numbers of one sign.
type duration struct{ seconds, nanos int64 }

// parseDuration reads protobuf's JSON of one: "-1.5s".
func parseDuration(value any) (duration, error) {
	text, _ := value.(string)
	number, unit := strings.CutSuffix(text, "s")
	number, negative := strings.CutPrefix(number, "-")
	seconds, fraction, _ := strings.Cut(number, ".")
	d, okSeconds := digits(seconds)
	nanos, okNanos := digits(fraction + strings.Repeat("0", max(0, 9-len(fraction))))
	if len(fraction) > 9 || !unit || !okSeconds || !okNanos {
		return duration{}, fmt.Errorf("%v: want a duration, such as \"1.5s\"", value)
	}
	if negative {
		d, nanos = -d, -nanos
	}
	return duration{d, nanos}, nil
}

// digits reads a number of up to twelve digits, which are those of the longest duration.
func digits(text string) (int64, bool) {
	n, err := strconv.ParseUint(text, 10, 63)
	return int64(n), err == nil && len(text) <= 12
}

// mergeDuration replaces each of the two numbers that is not 0: "0s" replaces nothing, and "1s" over "0.5s" is "1.5s".
func mergeDuration(old, value any) (any, error) {
	d, err := parseDuration(old)
	if err != nil {
		return nil, err
	}
	by, err := parseDuration(value)
	if err != nil {
		return nil, err
	}
	if by.seconds != 0 {
		d.seconds = by.seconds
	}
	if by.nanos != 0 {
		d.nanos = by.nanos
	}
	if d.seconds < 0 && d.nanos > 0 || d.seconds > 0 && d.nanos < 0 {
		return nil, fmt.Errorf("%v over %v is no duration: protobuf replaces seconds and nanoseconds alone", value, old)
	}
	return d.String(), nil
}

func (d duration) String() string {
	sign := ""
	if d.seconds < 0 || d.nanos < 0 {
		sign, d.seconds, d.nanos = "-", -d.seconds, -d.nanos
	}
	text := sign + strconv.FormatInt(d.seconds, 10)
	if d.nanos != 0 {
		text += "." + strings.TrimRight(fmt.Sprintf("%09d", d.nanos), "0")
	}
	return text + "s"
}
