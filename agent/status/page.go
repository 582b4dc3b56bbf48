package status

import (
	_ "embed"
	"fmt"
	"html"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/pilotlight/pilotlight/agent/flight"
)

//go:embed page.css
var stylesheet []byte

// pageFailures is how many findings the page shows.
const pageFailures = 20

// policy lets a browser load nothing that this server does not serve, and show the page in no other page. The page has no script.
const policy = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Page is what the page shows beside the Document.
type Page struct {
	Records  []string // paths of the flight records, the newest last
	Settings string   // each setting with its value and origin, a line each
}

// page serves the page of the agent: for people, of the state of one moment.
func (c Config) page(why *asking) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := why.get(r.Context())
		text := pageText(c.Document(), c.Page(), answer, err, time.Now())
		h := pageHeader(w, "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", policy)
		_, _ = w.Write([]byte(text)) // the client may have gone away
	})
}

func (c Config) style(w http.ResponseWriter, _ *http.Request) {
	pageHeader(w, "text/css; charset=utf-8")
	_, _ = w.Write(stylesheet)
}

func pageHeader(w http.ResponseWriter, kind string) http.Header {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	return h
}

// document is a page that is being written. Every text in it is escaped.
type document struct{ strings.Builder }

func pageText(d Document, p Page, why Why, failed error, now time.Time) string {
	var out document
	out.WriteString(`<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">` +
		`<title>agent</title><link rel="stylesheet" href="/page.css"></head><body><main>`)
	out.element("h1", d.Node)
	out.summary(d, now)
	out.failures(why, failed)
	out.epochs(d, now)
	out.readiness(d, now)
	out.certificates(d, now)
	out.exits(d, p)
	out.element("h2", "Settings and their origins")
	out.element("pre", flight.MaskText(p.Settings))
	out.WriteString("</main></body></html>\n")
	return out.String()
}

func (o *document) element(name, text string) {
	fmt.Fprintf(o, "<%s>%s</%s>", name, escape(text), name)
}

// table writes a table, or that there is nothing to show.
func (o *document) table(title string, heading []string, rows [][]string) {
	o.element("h2", title)
	if len(rows) == 0 {
		o.element("p", "None.")
		return
	}
	o.WriteString("<table><thead><tr>")
	for _, cell := range heading {
		fmt.Fprintf(o, `<th scope="col">%s</th>`, escape(cell))
	}
	o.WriteString("</tr></thead><tbody>")
	for _, row := range rows {
		o.WriteString("<tr>")
		for _, cell := range row {
			o.element("td", cell)
		}
		o.WriteString("</tr>")
	}
	o.WriteString("</tbody></table>")
}

func (o *document) summary(d Document, now time.Time) {
	ready, reason := d.Ready()
	word := "not ready"
	if ready {
		word = "ready"
	}
	fmt.Fprintf(o, `<p class="%s"><strong>%s</strong>`, strings.ReplaceAll(word, " ", "-"), word)
	if n := len(d.Past.Readiness); n > 0 {
		o.WriteString(escape(" for " + span(now.Sub(d.Past.Readiness[n-1].At))))
	}
	if reason != "" {
		o.WriteString(escape(": " + reason))
	}
	o.WriteString("</p>")
	if refusal := d.Supervisor.Refusal; refusal != nil {
		o.element("p", "configuration refused: "+refusal.Reason)
	}
	if gaveUp := d.Supervisor.GaveUp; gaveUp != "" {
		o.element("p", "given up: "+gaveUp)
	}
}

func (o *document) failures(why Why, failed error) {
	var rows [][]string
	for _, f := range why.Findings[:min(len(why.Findings), pageFailures)] {
		rows = append(rows, []string{f.Flag, flight.MaskText(f.Text), f.Instead})
	}
	o.table("Why requests failed", []string{"Flag", "What", "Instead"}, rows)
	switch {
	case failed != nil:
		o.element("p", "not known: "+failed.Error())
	default:
		o.element("p", fmt.Sprintf("Counted by the Envoy of epoch %d since %s.", why.Epoch, clock(why.Since)))
	}
	rows = nil
	for _, r := range slices.Backward(why.Requests[max(0, len(why.Requests)-pageFailures):]) {
		rows = append(rows, []string{clock(r.At), strings.Join(r.Flags, ","), strconv.Itoa(r.Code), flight.MaskText(r.Text), r.Instead})
	}
	o.table("The last failed requests", []string{"At", "Flags", "Code", "What", "Instead"}, rows)
	for _, l := range why.Lacks {
		o.element("p", "not told: "+l)
	}
}

// epochs writes the living Envoys, and the timeline of what became of all.
func (o *document) epochs(d Document, now time.Time) {
	var rows [][]string
	for _, e := range d.Supervisor.Epochs {
		live := ""
		if e.LiveAt != nil {
			live = span(now.Sub(*e.LiveAt))
		}
		rows = append(rows, []string{strconv.Itoa(e.Epoch), strconv.Itoa(d.Pids[e.Epoch]), e.State, clock(e.StartedAt), live})
	}
	o.table("Epochs", []string{"Epoch", "Pid", "State", "Started", "Live for"}, rows)
	rows = nil
	for i := len(d.Supervisor.Events) - 1; i >= 0; i-- {
		e, epoch := d.Supervisor.Events[i], ""
		if d.Supervisor.Events[i].Epoch >= 0 {
			epoch = strconv.Itoa(e.Epoch)
		}
		rows = append(rows, []string{clock(e.At), epoch, string(e.Note), flight.MaskText(e.Why)})
	}
	o.table("Timeline", []string{"At", "Epoch", "Event", "Why"}, rows)
}

func (o *document) readiness(d Document, now time.Time) {
	var rows [][]string
	conditions := d.verdict().Conditions
	if c := d.Health.Discovery; c != nil {
		conditions = append(conditions[:len(conditions):len(conditions)], *c)
	}
	for _, c := range conditions {
		holds := "no"
		if c.Status {
			holds = "yes"
		}
		rows = append(rows, []string{string(c.Type), holds, span(now.Sub(c.Since)), c.Reason})
	}
	o.table("Readiness", []string{"Condition", "Holds", "For", "Reason"}, rows)
	rows = nil
	for i := len(d.Past.Readiness) - 1; i >= 0; i-- {
		t, word := d.Past.Readiness[i], "not ready"
		if t.Ready {
			word = "ready"
		}
		rows = append(rows, []string{clock(t.At), word, t.Reason})
	}
	o.table(fmt.Sprintf("Readiness until now: %d changes", d.Past.Changes), []string{"At", "Became", "Reason"}, rows)
}

func (o *document) certificates(d Document, now time.Time) {
	var rows [][]string
	for _, c := range d.Certificates {
		left, until := "not known", ""
		if ends := c.ends(); ends != nil {
			until = clock(*ends)
			left = span(ends.Sub(now)) + " left"
			if !ends.After(now) {
				left = "ended " + span(now.Sub(*ends)) + " ago"
			}
		}
		note := c.Fault
		if c.Held != nil {
			note += "; Envoy uses the one before, " + c.Held.Serial
		}
		if c.Renewal != "" {
			note = strings.TrimPrefix(note+"; "+c.Renewal, "; ")
		}
		rows = append(rows, []string{c.Path, c.Serial, left, until, note})
	}
	o.table("Certificates", []string{"File", "Serial", "Left", "Until", "Fault"}, rows)
}

// exits writes the last exits with Envoy's last lines, and where the flight records are. Lines are masked when they are kept; those of an earlier image of the agent
// may be masked by less.
func (o *document) exits(d Document, p Page) {
	var rows [][]string
	exits := []*Exit{d.Past.LastExit}
	if failure := d.Past.LastFailure; failure != nil && (exits[0] == nil || !failure.At.Equal(exits[0].At) || failure.Epoch != exits[0].Epoch) {
		exits = append(exits, failure)
	}
	for _, e := range exits {
		if e != nil {
			rows = append(rows, []string{clock(e.At), strconv.Itoa(e.Epoch), e.What, flight.MaskText(e.Exit), flight.MaskText(strings.Join(e.Lines, "\n"))})
		}
	}
	o.table("Exits", []string{"At", "Epoch", "What", "Cause", "Last lines"}, rows)
	rows = nil
	for i := len(p.Records) - 1; i >= 0; i-- {
		rows = append(rows, []string{p.Records[i]})
	}
	o.table("Flight records", []string{"File, for the agent's user"}, rows)
}

// escape makes text of anything: for the content of an element, in one line or, at line feeds, several.
func escape(text string) string {
	return html.EscapeString(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?")))
}

func clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// span returns a time in words: "12 days", "3h4m5s".
func span(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= 2*day {
		return fmt.Sprintf("%d days", d/day)
	}
	return d.Round(time.Second).String()
}
