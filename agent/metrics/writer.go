package metrics

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// TextFormat is the only format that is written. Every scraper accepts it, also one that prefers another.
const TextFormat = "text/plain; version=0.0.4; charset=utf-8"

// prefix begins the name of every metric of the agent.
const prefix = "pilotlight_agent_"

// Writer writes the agent's own metrics in the text format of Prometheus.
type Writer struct{ *bufio.Writer }

// NewWriter returns a Writer, which is to be flushed.
func NewWriter(to io.Writer) Writer { return Writer{bufio.NewWriter(to)} }

// Family begins a metric; its samples follow.
func (w Writer) Family(name, kind, help string) {
	fmt.Fprintf(w, "# HELP %s%s %s\n# TYPE %[1]s%[2]s %[4]s\n", prefix, name, help, kind)
}

// Sample writes a sample; labels are pairs of name and value.
func (w Writer) Sample(name string, value any, labels ...string) {
	fmt.Fprintf(w, "%s%s", prefix, name)
	separator := "{"
	for i := 0; i+1 < len(labels); i += 2 {
		fmt.Fprintf(w, `%s%s="%s"`, separator, labels[i], labelEscapes.Replace(labels[i+1]))
		separator = ","
	}
	if separator == "," {
		w.WriteByte('}')
	}
	fmt.Fprintf(w, " %v\n", value)
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// Metric writes a metric of one sample.
func (w Writer) Metric(name, kind, help string, value any) {
	w.Family(name, kind, help)
	w.Sample(name, value)
}

// Number is the value of a metric that tells whether something holds.
func Number(b bool) int {
	if b {
		return 1
	}
	return 0
}
