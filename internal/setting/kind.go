package setting

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kind defines the allowed texts of a setting, and the variable for its value.
type Kind struct {
	Type    string // for help: "duration"
	Allowed string // follows "want"
	Example string // follows "such as"; empty if Allowed is enough

	parse func(text string) error // stores the value in its variable, or returns an error if it is not allowed
	show  func() string           // formats the variable's value
	words bool                    // a list whose items are separated by spaces instead of commas
}

func (k Kind) separator() string {
	if k.words {
		return " "
	}
	return ","
}

var errNotAllowed = errors.New("not allowed")

// kind returns a Kind with a function that parses a text, and one that formats a value.
func kind[T any](to *T, name, allowed string, parse func(string) (T, bool), show func(T) string) Kind {
	return Kind{
		Type: name, Allowed: allowed,
		parse: func(text string) error {
			value, ok := parse(text)
			if !ok {
				return errNotAllowed
			}
			*to = value
			return nil
		},
		show: func() string { return show(*to) },
	}
}

// Such sets the example.
func (k Kind) Such(example string) Kind {
	k.Example = example
	return k
}

// Text is any text, also an empty one.
func Text(to *string, allowed string) Kind {
	return kind(to, "text", allowed, func(s string) (string, bool) { return s, true }, same)
}

// Name is a text that must not be empty.
func Name(to *string, allowed string) Kind {
	return kind(to, "text", allowed, func(s string) (string, bool) { return s, s != "" }, same)
}

// Parsed is a text that parse accepts, which makes the value of it; the value's String returns the text. A value that parse
// returns with an error is stored too, so that the setting counts as given where others are judged by it.
func Parsed[T fmt.Stringer](to *T, name, allowed string, parse func(string) (T, error)) Kind {
	return Kind{
		Type: name, Allowed: allowed,
		parse: func(text string) error {
			value, err := parse(text)
			if err == nil || value.String() != "" {
				*to = value
			}
			if err != nil {
				return errNotAllowed
			}
			return nil
		},
		show: func() string { return (*to).String() },
	}
}

// OneOf is one of some words.
func OneOf(to *string, words ...string) Kind {
	return kind(to, "word", "one of "+strings.Join(words, ", "),
		func(s string) (string, bool) { return s, slices.Contains(words, s) }, same)
}

// Path is a path with one of some endings, or any path.
func Path(to *string, endings ...string) Kind {
	allowed := "a path"
	if len(endings) > 0 {
		allowed = "a file that ends in " + strings.Join(endings, " or ")
	}
	ok := func(s string) bool { return len(endings) == 0 || slices.Contains(endings, filepath.Ext(s)) }
	return kind(to, "path", allowed, func(s string) (string, bool) { return s, s == "" || ok(s) }, same)
}

// Bool is true or false.
func Bool(to *bool) Kind {
	return kind(to, "bool", "true or false", func(s string) (bool, bool) { return s == "true", s == "true" || s == "false" },
		strconv.FormatBool)
}

// Int is a whole number of a range.
func Int(to *int, from, upTo int) Kind {
	allowed := fmt.Sprintf("%d to %d", from, upTo)
	if upTo == NoLimit {
		allowed = fmt.Sprintf("%d or more", from)
	}
	return kind(to, "int", allowed, func(s string) (int, bool) {
		n, err := strconv.Atoi(s)
		return n, err == nil && n >= from && n <= upTo
	}, strconv.Itoa)
}

// NoLimit is the greatest int.
const NoLimit = 1<<(bits.UintSize-1) - 1

// Port is a port, or 0 for none.
func Port(to *int) Kind {
	k := Int(to, 0, 65535)
	k.Type, k.Allowed = "port", "1 to 65535, or 0 for none"
	return k
}

// Number is a number of at least from.
func Number(to *float64, from float64) Kind {
	return kind(to, "number", fmt.Sprintf("%g or more", from), func(s string) (float64, bool) {
		n, err := strconv.ParseFloat(s, 64)
		return n, err == nil && n >= from && !math.IsInf(n, 0)
	}, func(n float64) string { return strconv.FormatFloat(n, 'g', -1, 64) })
}

// Forever is the longest Duration.
const Forever = time.Duration(math.MaxInt64)

// Duration is a time of a range, "1m30s".
func Duration(to *time.Duration, from, upTo time.Duration) Kind {
	allowed := fmt.Sprintf("%s to %s", short(from), short(upTo))
	if upTo == Forever {
		allowed = "a duration of " + short(from) + " or more"
	}
	return kind(to, "duration", allowed, func(s string) (time.Duration, bool) {
		d, err := time.ParseDuration(s)
		return d, err == nil && d >= from && d <= upTo
	}, short)
}

// Seconds is a Duration of whole seconds.
func Seconds(to *time.Duration, from, upTo time.Duration) Kind {
	k := Duration(to, from, upTo)
	inRange := k.parse
	k.Allowed = "whole seconds, " + k.Allowed
	k.parse = func(text string) error {
		if d, err := time.ParseDuration(text); err != nil || d%time.Second != 0 {
			return errNotAllowed
		}
		return inRange(text)
	}
	return k
}

// short writes 1m0s as 1m.
func short(d time.Duration) string {
	s := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// Address is "host:port", or an empty text if it is optional.
func Address(to *string, optional bool) Kind {
	k := kind(to, "address", "host:port", func(s string) (string, bool) {
		host, port, err := net.SplitHostPort(s)
		n, notNumber := strconv.Atoi(port)
		ok := err == nil && notNumber == nil && host != "" && n >= 1 && n <= 65535
		return s, ok || optional && s == ""
	}, same)
	return k.Such("pilot:15010 or [::1]:15010")
}

// Listen is an address to listen on, "host:port" or ":port", or an empty text if it is optional.
func Listen(to *string, optional bool) Kind {
	allowed := "host:port or :port"
	if optional {
		allowed += ", or nothing for none"
	}
	return kind(to, "address", allowed, func(s string) (string, bool) {
		_, port, err := net.SplitHostPort(s)
		_, notNumber := strconv.ParseUint(port, 10, 16)
		return s, err == nil && notNumber == nil || optional && s == ""
	}, same)
}

// URL is the base URL of an HTTP service, or an empty text.
func URL(to *string) Kind {
	return kind(to, "URL", "http://host:port or https://host:port", func(s string) (string, bool) {
		u, err := url.Parse(s)
		return s, s == "" || err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
	}, same)
}

// List is values separated by commas.
func List(to *[]string) Kind {
	return kind(to, "list", "values parted by commas", func(s string) ([]string, bool) {
		items := strings.FieldsFunc(s, func(r rune) bool { return r == ',' })
		return items, true
	}, func(items []string) string { return strings.Join(items, ",") })
}

// Words are values separated by spaces.
func Words(to *[]string) Kind {
	k := kind(to, "words", "values parted by spaces", func(s string) ([]string, bool) { return strings.Fields(s), true },
		func(items []string) string { return strings.Join(items, " ") })
	k.words = true
	return k
}

// Pairs are name=value pairs, separated by commas.
func Pairs(to *map[string]string) Kind {
	k := kind(to, "pairs", "name=value pairs parted by commas", pairs, func(m map[string]string) string {
		parts := make([]string, 0, len(m))
		for _, name := range slices.Sorted(maps.Keys(m)) {
			parts = append(parts, name+"="+m[name])
		}
		return strings.Join(parts, ",")
	})
	return k
}

func pairs(text string) (map[string]string, bool) {
	if text == "" {
		return nil, true
	}
	out := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, found := strings.Cut(part, "=")
		if _, twice := out[name]; !found || name == "" || twice {
			return nil, false
		}
		out[name] = value
	}
	return out, true
}

// Bytes is an amount of memory in Kubernetes' form: 512Mi, 1G, or a number of bytes.
func Bytes(to *int64) Kind {
	k := kind(to, "bytes", "a number of bytes, with Ki, Mi, Gi, k, M or G after it", bytesIn, func(n int64) string {
		for _, u := range []string{"Gi", "Mi", "Ki"} {
			if n > 0 && n%units[u] == 0 {
				return strconv.FormatInt(n/units[u], 10) + u
			}
		}
		return strconv.FormatInt(n, 10)
	})
	return k.Such("256Mi")
}

var units = map[string]int64{"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}

func bytesIn(text string) (int64, bool) {
	digits := strings.TrimRight(text, "kMGKi")
	unit, known := units[text[len(digits):]]
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || !known || n < 0 || n > (1<<62)/unit {
		return 0, false
	}
	return n * unit, true
}

func same(s string) string { return s }

// Hint returns the end of a help text: the allowed values, if the type does not show them.
func (k Kind) Hint() string {
	if k.Type == "bool" || k.Allowed == "a path" {
		return ""
	}
	return ": " + k.Allowed
}

// WithoutText returns the value of a flag that is given without one; empty if the flag needs a value.
func (k Kind) WithoutText() string {
	if k.Type == "bool" {
		return "true"
	}
	return ""
}
