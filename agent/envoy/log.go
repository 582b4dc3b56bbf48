package envoy

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"time"
)

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
