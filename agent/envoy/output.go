package envoy

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/agent/flight"
	"github.com/pilotlight/pilotlight/agent/health"
)

// output receives the log lines of an epoch of Envoy. It forwards each line to the agent's log and keeps the last ones,
// for the cause of an exit and for the flight record.
type output struct {
	log slog.Handler // has the epoch

	mu     sync.Mutex
	begun  []byte   // of a line that has not ended
	recent []Record // a ring: once it is full, the oldest is at oldest
	oldest int

	rejected map[string]rejection // the last one of each type
}

// newOutput forwards lines of every level, since Envoy's own --log-level has filtered them.
func newOutput(log *slog.Logger, epoch int) *output {
	return &output{log: log.With("epoch", epoch).Handler()}
}

const (
	keptLines   = 100
	longestLine = 4096 // bytes; the rest of a longer line is dropped
)

// Write accepts any piece of output. It never fails, since a fault of the log must not stop Envoy.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for rest := p; len(rest) > 0; {
		piece, after, ended := bytes.Cut(rest, []byte("\n"))
		switch {
		case ended && len(o.begun) == 0:
			o.line(piece[:min(len(piece), longestLine)])
		default:
			o.begun = append(o.begun, piece[:min(len(piece), longestLine-len(o.begun))]...)
			if ended {
				o.end()
			}
		}
		rest = after
	}
	return len(p), nil
}

// end handles the text kept so far as a complete line.
func (o *output) end() {
	o.line(o.begun)
	o.begun = o.begun[:0]
}

func (o *output) line(text []byte) {
	r, _ := parse(text)
	if r.Message == "" {
		return
	}
	o.log.Handle(context.Background(), r.record(time.Now()))
	if r.Level >= slog.LevelWarn {
		o.remember(r)
	}
	if len(o.recent) < keptLines {
		o.recent = append(o.recent, r)
		return
	}
	o.recent[o.oldest] = r
	o.oldest = (o.oldest + 1) % keptLines
}

// last returns the last lines, oldest first. It handles an incomplete line as a line, so it is for an Envoy that has
// ended.
func (o *output) last() []Record {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.begun) > 0 {
		o.end()
	}
	return slices.Concat(o.recent[o.oldest:], o.recent[:o.oldest])
}

// lastLines returns the last lines as text: level, component and message, or the line as it was.
func (o *output) lastLines() []string {
	var lines []string
	for _, r := range o.last() {
		lines = append(lines, r.String())
	}
	return lines
}

// String is a line of a flight record.
func (r Record) String() string {
	if r.Component == "" {
		return r.Message
	}
	return strings.Join([]string{r.Time.UTC().Format("15:04:05.000"), LevelName(r.Level), r.Component, r.Message}, " ")
}

// reason returns the line that explains best why Envoy ended. Envoy repeats a fatal error of its start as a last line
// in plain text. An assertion is a critical line, perhaps followed by a backtrace, which holds the place and not the
// cause. Each run of white space becomes one blank: a message may have several lines, and protobuf adds blanks to its
// errors at random.
func (o *output) reason() string { return strings.Join(strings.Fields(reasonOf(o.last())), " ") }

const reasonLines = 20 // earlier lines are not the cause of an exit

func reasonOf(lines []Record) string {
	lines = slices.DeleteFunc(lines, func(r Record) bool {
		return r.Component == "backtrace" && !strings.HasPrefix(r.Message, "Caught ")
	})
	lines = lines[max(0, len(lines)-reasonLines):]
	for i := len(lines) - 1; i >= 0; i-- {
		switch r := lines[i]; {
		case r.Component == "" && i == len(lines)-1:
			return r.Message
		case r.Component == "backtrace" && i > 0 && lines[i-1].Level == levelCritical:
			return lines[i-1].Message // the signal "Caught Aborted" is the effect of an assertion
		case r.Level >= slog.LevelError:
			return r.Message
		}
	}
	return ""
}

// rejection is a rejected update, with the names of its rejected resources.
type rejection struct {
	health.Rejection
	names []string
}

// remember keeps the last rejection of each type, from Envoy's log line about it.
func (o *output) remember(r Record) {
	typeURL, text := rejectedIn(r.Message)
	if typeURL == "" {
		return
	}
	if o.rejected == nil {
		o.rejected = map[string]rejection{}
	}
	o.rejected[typeURL] = rejectionOf(text, r.Time)
}

// rejectedIn returns the type whose update a message says to be rejected, and why; empty for any other message. For an update
// from a file Envoy names no type, but says whether it was of clusters or listeners.
func rejectedIn(message string) (typeURL, text string) {
	if text, found := strings.CutPrefix(message, "Filesystem config update rejected: Error adding/updating "); found {
		switch {
		case strings.HasPrefix(text, "listener(s) "):
			typeURL = listenerType
		case strings.HasPrefix(text, "cluster(s) "):
			typeURL = clusterType
		}
		return typeURL, "Error adding/updating " + text
	}
	variant, rest, found := strings.Cut(message, " config for ")
	typeURL, text, said := strings.Cut(rest, " rejected: ")
	if !found || !said || variant != "gRPC" && variant != "delta" {
		return "", ""
	}
	return typeURL, text
}

// said reports whether one of the last lines contains a text.
func (o *output) said(text string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.recent, func(r Record) bool { return strings.Contains(r.Message, text) })
}

// lastRejection returns the last rejection of a type in Envoy's log; the zero rejection where there is none.
func (o *output) lastRejection(typeURL string) rejection {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.rejected[typeURL]
}

// lastRejected reports whether the last rejection of a type says a text.
func (o *output) lastRejected(typeURL, text string) bool {
	return strings.Contains(o.lastRejection(typeURL).Text, text)
}

// rejectedSince reports whether Envoy has logged a rejection of any type after a time.
func (o *output) rejectedSince(at time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.rejected {
		if r.At.After(at) {
			return true
		}
	}
	return false
}

// rejectionOf parses "Error adding/updating cluster(s) NAME: WHY, NAME: WHY"; for listener(s), each part is a line. A
// part with blanks belongs to a reason and is not a name. Each run of white space becomes one blank.
func rejectionOf(text string, at time.Time) rejection {
	line := flight.MaskText(strings.Join(strings.Fields(text), " ")) // any user may read it
	r := rejection{Rejection: health.Rejection{Text: line, At: at}}
	_, list, _ := strings.Cut(text, "(s) ")
	for line := range strings.Lines(list) {
		for part := range strings.SplitSeq(line, ", ") {
			if name, _, found := strings.Cut(part, ": "); found && !strings.Contains(name, " ") {
				r.names = append(r.names, name)
			}
		}
	}
	return r
}

// LogFormat is for Envoy's --log-format: one JSON object a line, with the keys in the order on which parse relies. %j
// escapes the message for JSON; bytes that are no UTF-8 stay.
const LogFormat = `{"level":"%l","time":"%Y-%m-%dT%T.%e%z","component":"%n","thread":%t,"source":"%g:%#","msg":"%j"}`

// Record is one line of Envoy's log.
type Record struct {
	Time  time.Time  `json:"Time"`  // zero in a plain line
	Level slog.Level `json:"Level"` // LevelInfo in a plain line
	// Component is Envoy's name of the logger, as in --component-log-level; empty in a plain line
	Component string `json:"Component"`
	Thread    string `json:"Thread"`
	Source    string `json:"Source"` // file:line of Envoy
	Message   string `json:"Message"`
}

// Envoy has a level below and one above slog's.
const (
	levelTrace    = slog.LevelDebug - 4
	levelCritical = slog.LevelError + 4
)

// LevelName returns a level as a word, where slog's own name would be DEBUG-4 or ERROR+4.
func LevelName(l slog.Level) string {
	switch {
	case l < slog.LevelDebug:
		return "TRACE"
	case l > slog.LevelError:
		return "CRITICAL"
	}
	return l.String()
}

// parse parses a line of LogFormat, or of Envoy's default format, which Envoy uses if the bootstrap configures the log
// format. For any other line it returns false and a Record with the line as its message: Envoy writes fatal errors of
// its start so.
func parse(line []byte) (Record, bool) {
	line = bytes.TrimSpace(line)
	if r, ok := parseJSON(line); ok {
		return r, true
	}
	if r, ok := parseDefault(string(line)); ok {
		return r, true
	}
	return Record{Message: string(line)}, false
}

// parseJSON cuts at the keys of LogFormat, which costs a tenth of a JSON decoder's time. It does not require the end of
// the object, since a long line is cut short.
func parseJSON(line []byte) (Record, bool) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"level":"`))
	if !ok {
		return Record{}, false
	}
	var fields [5]string
	for i, next := range [...]string{`","time":"`, `","component":"`, `","thread":`, `,"source":"`, `","msg":"`} {
		field, after, found := bytes.Cut(rest, []byte(next))
		if !found {
			return Record{}, false
		}
		fields[i], rest = string(field), after
	}
	level, known := levelOf(fields[0])
	at, err := time.Parse("2006-01-02T15:04:05.000-07:00", fields[1])
	message := unescape(bytes.TrimSuffix(rest, []byte(`"}`)))
	return Record{at, level, fields[2], fields[3], fields[4], message}, known && err == nil
}

// unescape decodes the inside of a JSON string. A text that is not valid there, since it was cut, stays as it is.
func unescape(text []byte) string {
	if bytes.IndexByte(text, '\\') < 0 {
		return string(text)
	}
	var message string
	if json.Unmarshal(append(append([]byte{'"'}, text...), '"'), &message) != nil {
		return string(text)
	}
	return message
}

// parseDefault reads "[date time][thread][level][logger] [source] message".
func parseDefault(line string) (Record, bool) {
	rest, ok := strings.CutPrefix(line, "[")
	fields := strings.SplitN(rest, "][", 4)
	if !ok || len(fields) < 4 {
		return Record{}, false
	}
	at, err := time.ParseInLocation("2006-01-02 15:04:05.000", fields[0], time.Local)
	level, known := levelOf(fields[2])
	component, message, ok := strings.Cut(fields[3], "] ")
	r := Record{Time: at, Level: level, Component: component, Thread: fields[1], Message: message}
	if source, after, found := strings.Cut(message, "] "); found && strings.HasPrefix(source, "[") {
		r.Source, r.Message = source[1:], after
	}
	return r, ok && known && err == nil
}

func levelOf(name string) (level slog.Level, ok bool) {
	switch name {
	case "trace":
		return levelTrace, true
	case "debug":
		return slog.LevelDebug, true
	case "info":
		return slog.LevelInfo, true
	case "warning":
		return slog.LevelWarn, true
	case "error":
		return slog.LevelError, true
	case "critical":
		return levelCritical, true
	}
	return 0, false
}

// record returns the line for the agent's log. now is the time for a line that has none.
func (r Record) record(now time.Time) slog.Record {
	at := r.Time
	if at.IsZero() {
		at = now
	}
	out := slog.NewRecord(at, r.Level, r.Message, 0)
	if r.Component == "" {
		out.AddAttrs(slog.String("component", "output"))
		return out
	}
	out.AddAttrs(slog.String("component", r.Component), slog.String("thread", r.Thread))
	if r.Source != "" {
		out.AddAttrs(slog.String("source", r.Source))
	}
	return out
}
