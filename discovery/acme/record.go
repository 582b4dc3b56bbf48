package acme

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Times between tries, and how long an issuer can put one off.
const (
	firstRetry = time.Minute
	lastRetry  = 12 * time.Hour
	mostPause  = 7 * 24 * time.Hour
)

// Record is what is known of a set.
type Record struct {
	Namespace string   `json:"Namespace"`
	Issuer    string   `json:"Issuer"`
	Hosts     []string `json:"Hosts"`
	Secrets   []string `json:"Secrets"` // names under which the certificate was served last

	Key       []byte    `json:"Key"` // PEM; empty before the first certificate
	Chain     []byte    `json:"Chain"`
	NotBefore time.Time `json:"NotBefore"`
	NotAfter  time.Time `json:"NotAfter"`

	Order    string `json:"Order"`    // URL of an order that has not ended, "" for none
	OrderKey []byte `json:"OrderKey"` // of its certificate, PEM
	// Questions are those of the order, which gateways answer until it has ended.
	Questions []Question `json:"Questions"`

	Failures int       `json:"Failures"` // since the last certificate
	Next     time.Time `json:"Next"`     // nothing is asked before it; zero for at once
	Limited  bool      `json:"Limited"`  // it is the issuer's limit that Next keeps
	Fault    string    `json:"Fault"`    // of the last try, "" for none
	Unbegun  bool      `json:"-"`        // that try was not made, since its begin could not be kept
	Unneeded time.Time `json:"-"`        // since when no connected gateway needs it; zero where one does
}

// Question is a challenge of an issuer about a host, and its answer.
type Question struct {
	Host   string `json:"Host"`
	Token  string `json:"Token"`
	Answer string `json:"Answer"`
}

// Of reports whether it is the record of a set.
func (r Record) Of(s Set) bool {
	return r.Namespace == s.Namespace && r.Issuer == s.Issuer && slices.Equal(r.Hosts, s.Hosts)
}

// Set returns the set of a record.
func (r Record) Set() Set { return Set{Namespace: r.Namespace, Issuer: r.Issuer, Hosts: r.Hosts} }

// Due returns when the set is to be asked for: at once without a certificate, else when a third of its life is left; and not before
// the last failure allows it. An order that has begun goes on.
func (r Record) Due() time.Time {
	var at time.Time
	if len(r.Chain) > 0 && r.Order == "" {
		at = r.NotAfter.Add(-r.NotAfter.Sub(r.NotBefore) / 3)
	}
	if r.Next.After(at) {
		at = r.Next
	}
	return at
}

// Begin counts a try before it is made: after a crash the next one is as far away as after a failure.
func (r Record) Begin(now time.Time, random float64) Record {
	r.Unbegun = false
	if r.Failures++; r.Order == "" {
		r.Next, r.Limited = now.Add(pause(r.Failures, random)), false
		r.Fault, r.Questions = unended, nil
	}
	return r
}

// unended is the fault of a record after Begin: while the try is under way, and after a crash.
const unended = "the try before did not end"

// Begun reports whether a try has begun, and nothing is known of its end.
func (r Record) Begun() bool { return r.Fault == unended && r.Order == "" }

// Asked records what the issuer asks gateways before it fulfils the order.
func (r Record) Asked(all []Question) Record {
	r.Questions = all
	return r
}

// Ordered records an order that the issuer has accepted: to ask for its state costs nothing, so a crash does not put it off.
func (r Record) Ordered(url string, key []byte) Record {
	r.Order, r.OrderKey, r.Next = url, key, time.Time{}
	return r
}

// Failed records the end of a try that Begin has counted. after is how long the issuer asks to wait, ended whether the order is of no
// further use.
func (r Record) Failed(now time.Time, why string, after time.Duration, limited, ended bool, random float64) Record {
	if ended {
		r.Order, r.OrderKey, r.Questions = "", nil, nil
	}
	wait := firstRetry // to look whether a try can be kept costs nothing
	if !r.Unbegun {
		wait = max(pause(r.Failures, random), min(after, mostPause))
	}
	r.Next = now.Add(wait)
	r.Limited, r.Fault = limited, Clip(why)
	return r
}

// Issued records a certificate.
func (r Record) Issued(key, chain []byte, from, until time.Time) Record {
	r.Key, r.Chain, r.NotBefore, r.NotAfter = key, chain, from, until
	r.Order, r.OrderKey, r.Questions, r.Failures, r.Next, r.Limited, r.Fault = "", nil, nil, 0, time.Time{}, false, ""
	return r
}

// Old reports whether a record that nobody names has no use any more: its certificate has ended, and its time has come.
func (r Record) Old(now time.Time) bool { return now.After(r.NotAfter) && now.After(r.Next) }

// pause returns the time after a number of failures. random is from 0 to 1.
func pause(failures int, random float64) time.Duration {
	d := lastRetry
	if failures < 11 {
		d = min(lastRetry, firstRetry<<max(failures-1, 0))
	}
	return time.Duration(float64(d) * (0.9 + 0.2*random))
}

// Notes returns what is to be said of a set at now.
func (r Record) Notes(s Set, now time.Time) []model.Note {
	missing := ""
	if len(r.Chain) == 0 || now.After(r.NotAfter) {
		missing = "; until then connections to it have no certificate"
	}
	switch {
	case len(s.NoHTTP) > 0:
		return s.notes(model.ACMENoHTTP, fmt.Sprintf("no connected gateway serves %s at port 80, where the issuer asks: nothing is ordered%s; want a server of protocol HTTP "+
			"with that host at port 80 of the same gateways", strings.Join(s.NoHTTP[:min(len(s.NoHTTP), 3)], ", "), missing))
	case r.Fault != "" && (r.Unbegun || r.Next.After(now)):
		code, text, when := model.ACMERefused, "no certificate of %s: %s; it is asked again at %s%s", r.Next.UTC().Format(time.RFC3339)
		switch {
		case r.Limited:
			code, text = model.ACMEWaits, "%[1]s asks to wait until %[3]s: %[2]s%[4]s"
		case r.Unbegun:
			when = "any time, once that is mended" // it is the same note until then
		}
		return s.notes(code, fmt.Sprintf(text, r.Issuer, r.Fault, when, missing))
	}
	return nil
}

// Waits returns a note for each place of the set about what keeps its certificate waiting.
func (s Set) Waits(text string) []model.Note { return s.notes(model.ACMEWaits, text) }

// RetryAfter reads the header of that name, as seconds or as a date; 0 for none.
func RetryAfter(value string, now time.Time) time.Duration {
	if n, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := time.Parse(time.RFC1123, value); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}

// maxWords bounds what is told of an issuer's words, in bytes.
const maxWords = 400

// Clip returns the words of an issuer in one line of bounded length.
func Clip(text string) string {
	text = strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text), "?")
	if len(text) > maxWords {
		text = strings.ToValidUTF8(text[:maxWords], "") + "…"
	}
	return text
}
