package config

import (
	"cmp"
	"encoding/json"
	"math/big"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle

// The forms of YAML 1.2's core schema, section 10.3.2.
var (
	decimal = regexp.MustCompile(`^[-+]?[0-9]+$`)
	based   = regexp.MustCompile(`^0(o[0-7]+|x[0-9a-fA-F]+)$`)
	float   = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
)

// maxDigits is longer than the digits of any number that a field holds; tooLarge is a number that no field holds.
const (
	maxDigits = 100
	tooLarge  = "1e999"
)

// scalar writes a scalar as JSON. A plain one is typed by YAML 1.2's core schema, not by the YAML package, for which
// 0777 is octal, 1_000 a number and 2026-01-01 a time. y, n, on and off are strings in both.
func scalar(n *yaml.Node) string {
	if n.Style&quoted != 0 && n.Style&yaml.TaggedStyle == 0 ||
		n.ShortTag() == "!!str" && n.Style&yaml.TaggedStyle != 0 {
		return quote(n.Value)
	}
	switch v := n.Value; v {
	case "", "~", "null", "Null", "NULL":
		return "null"
	case "true", "True", "TRUE":
		return "true"
	case "false", "False", "FALSE":
		return "false"
	case ".nan", ".NaN", ".NAN":
		return `"NaN"`
	case ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF":
		return `"Infinity"`
	case "-.inf", "-.Inf", "-.INF":
		return `"-Infinity"`
	default:
		return number(v)
	}
}

// number writes a number in JSON's stricter form, anything else as a string.
func number(v string) string {
	switch {
	case decimal.MatchString(v):
		return integer(v)
	case len(v) > maxDigits && based.MatchString(v):
		return tooLarge // its decimal form takes long to find
	case based.MatchString(v):
		i, _ := new(big.Int).SetString(v, 0)
		return i.String()
	case float.MatchString(v):
		mantissa, exponent, found := strings.Cut(strings.ToLower(v), "e")
		whole, fraction, _ := strings.Cut(mantissa, ".")
		out := integer(whole) + "." + cmp.Or(fraction, "0")
		if found {
			out += "e" + exponent
		}
		return out
	default:
		return quote(v)
	}
}

// integer drops the plus and the leading zeros that JSON does not allow: +007 is 7, -0 stays, and the missing integer
// of .5 is 0.
func integer(v string) string {
	digits := strings.TrimLeft(strings.TrimLeft(v, "+-"), "0")
	if digits == "" {
		digits = "0"
	}
	if strings.HasPrefix(v, "-") {
		return "-" + digits
	}
	return digits
}

func quote(s string) string {
	out, _ := json.Marshal(s) // encoding a string never fails
	return string(out)
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && scalar(n) == "null" }
