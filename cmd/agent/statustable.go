package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/pilotlight/pilotlight/agent/client"
	"github.com/pilotlight/pilotlight/agent/status"
	"github.com/pilotlight/pilotlight/internal/setting"
)

// shownEvents is how many events a table shows; the document has more.
const shownEvents = 10

// statusTable returns a status as text for people: first the most important lines, then tables.
func statusTable(s client.Status, now time.Time) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n%s\n\n", printable(s.Node), strings.Join(readinessLines(s, now), "\n"))
	writeTable(&out, []string{"EPOCH", "PID", "STATE", "AGE", "LIVE FOR", "FAMILY", "RESTART"}, epochRows(s, now))
	writeTable(&out, []string{"CONDITION", "STATUS", "FOR", "REASON"}, conditionRows(s, now))
	writeTable(&out, nil, factRows(s, now))
	writeTable(&out, []string{"AGE", "EPOCH", "EVENT", "WHY"}, eventRows(s, now))
	return strings.TrimRight(out.String(), "\n") + "\n"
}

const emptyCell = "-" // in a cell

func epochRows(s client.Status, now time.Time) (rows [][]string) {
	for _, e := range s.Epochs {
		pid, live := emptyCell, emptyCell
		if e.Pid != 0 {
			pid = strconv.Itoa(e.Pid)
		}
		if e.LiveAt != nil {
			live = age(*e.LiveAt, now)
		}
		rows = append(rows, []string{
			strconv.Itoa(e.Epoch), pid, e.State, age(e.StartedAt, now), live, strconv.Itoa(e.Family), strconv.Itoa(e.Restart),
		})
	}
	return rows
}

func conditionRows(s client.Status, now time.Time) (rows [][]string) {
	for _, c := range s.Health.Conditions {
		holds := "False"
		if c.Status {
			holds = "True"
		}
		rows = append(rows, []string{string(c.Type), holds, age(c.Since, now), c.Reason})
	}
	return rows
}

func eventRows(s client.Status, now time.Time) (rows [][]string) {
	for _, e := range s.Events[max(0, len(s.Events)-shownEvents):] {
		epoch := emptyCell
		if e.Epoch >= 0 {
			epoch = strconv.Itoa(e.Epoch)
		}
		rows = append(rows, []string{age(e.At, now), epoch, string(e.Note), cmp.Or(e.Why, emptyCell)})
	}
	return rows
}

// readinessLines reports in one or more lines whether the proxy is ready, and if not, why.
func readinessLines(s client.Status, now time.Time) []string {
	state := "not ready"
	if s.Ready {
		state = "ready"
	}
	if since := s.Readiness.Since; since != nil {
		state += " for " + age(*since, now)
	}
	switch {
	case s.Stopping:
		state += ": stopping"
	case s.Drained:
		state += ": drained"
	}
	lines := []string{state}
	if s.Health.Degraded != "" {
		lines = append(lines, "degraded: "+printable(s.Health.Degraded))
	}
	if b := s.Health.Bypassed; b != nil && s.Health.Degraded == "" { // one that is ready says it there
		lines = append(lines, b.String())
	}
	if s.Health.Hang != "" {
		lines = append(lines, "Envoy hangs: "+string(s.Health.Hang))
	}
	if s.Refusal != nil {
		lines = append(lines, "configuration refused: "+printable(s.Refusal.Reason))
	}
	return lines
}

// factRows returns the rows that have no table of their own.
func factRows(s client.Status, now time.Time) [][]string {
	rows := [][]string{{"restarts left", fmt.Sprintf("%d of %d", max(0, s.Budget-s.Failures), s.Budget)}}
	if s.RetryAt != nil {
		rows = append(rows, []string{"next start", "in " + rounded(s.RetryAt.Sub(now))})
	}
	if s.Handover != "" {
		rows = append(rows, []string{"handover", s.Handover})
	}
	if s.Took > 0 {
		rows = append(rows, []string{"last handover took", s.Took.Round(time.Millisecond).String()})
	}
	if f := s.LastFailure; f != nil {
		rows = append(rows, []string{"last failure", fmt.Sprintf("epoch %d, %s ago: %s", f.Epoch, age(f.At, now), f.Exit)})
	}
	for _, c := range s.Certificates {
		rows = append(rows, []string{"certificate", c.Path + " " + validity(c, now)})
	}
	if r := s.Recording; r != nil {
		rows = append(rows, []string{"last good", remembered(r, now)})
	}
	return rows
}

// remembered describes the configuration that an Envoy would get while discovery is away.
func remembered(r *status.Recording, now time.Time) string {
	of := "the configuration of " + age(r.Newest, now) + " ago"
	switch {
	case r.Newest.IsZero() && r.Fault == "":
		return "nothing yet"
	case r.Newest.IsZero():
		return "nothing is remembered: " + r.Fault
	case r.Fault != "":
		return of + ", nothing newer is remembered: " + r.Fault
	}
	return of
}

func validity(c status.Certificate, now time.Time) string {
	switch {
	case c.Held != nil:
		return fmt.Sprintf("cannot be used: %s; Envoy uses the one before, %s, which ends in %s, %s", c.Fault, c.Held.Serial,
			rounded(c.Held.NotAfter.Sub(now)), c.Held.NotAfter.UTC().Format(time.RFC3339))
	case c.Fault != "" || c.NotAfter == nil:
		return cmp.Or(c.Fault, "is not told")
	case c.NotAfter.After(now):
		return fmt.Sprintf("ends in %s, %s", rounded(c.NotAfter.Sub(now)), c.NotAfter.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("ended %s ago, %s", age(*c.NotAfter, now), c.NotAfter.UTC().Format(time.RFC3339))
}

// writeTable writes a table with aligned columns. A table without rows is left out, with its heading.
func writeTable(out *strings.Builder, heading []string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	if heading != nil {
		rows = append([][]string{heading}, rows...)
	}
	for _, row := range rows {
		for i, cell := range row {
			row[i] = printable(cell)
		}
	}
	_ = setting.WriteColumns(out, 3, rows) // into memory
	out.WriteByte('\n')
}

// age returns how long ago a time was, in the form of kubectl: its two largest units.
func age(t, now time.Time) string {
	if t.IsZero() {
		return emptyCell
	}
	return rounded(now.Sub(t))
}

func rounded(d time.Duration) string {
	names, sizes := []string{"d", "h", "m", "s"}, []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second}
	first := slices.IndexFunc(sizes, func(size time.Duration) bool { return d >= size })
	if first < 0 {
		return "0s"
	}
	text := fmt.Sprintf("%d%s", d/sizes[first], names[first])
	if next := first + 1; next < len(sizes) && d%sizes[first] >= sizes[next] {
		text += fmt.Sprintf("%d%s", d%sizes[first]/sizes[next], names[next])
	}
	return text
}

// printable converts a text from an untrusted source to one line without control characters for a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}
