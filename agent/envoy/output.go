package envoy

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

// lastWords passes Envoy's output on and remembers its last lines, to name the cause of an exit.
type lastWords struct {
	next io.Writer

	mu    sync.Mutex
	line  []byte // begun, not ended
	lines []string
}

const (
	keptLines   = 20
	longestLine = 4096 // bytes of a line that are remembered; all are passed on
)

// Write takes any piece of output. A reader that has gone away must not stop Envoy, so it never fails.
func (w *lastWords) Write(p []byte) (int, error) {
	w.next.Write(p)
	w.mu.Lock()
	defer w.mu.Unlock()
	for rest := p; len(rest) > 0; {
		piece, after, ended := bytes.Cut(rest, []byte("\n"))
		w.line = append(w.line, piece[:min(len(piece), max(0, longestLine-len(w.line)))]...)
		if ended {
			w.endLine()
		}
		rest = after
	}
	return len(p), nil
}

func (w *lastWords) endLine() {
	if text := strings.TrimSpace(string(w.line)); text != "" {
		w.lines = append(w.lines[max(0, len(w.lines)-keptLines+1):], text)
	}
	w.line = w.line[:0]
}

// reason returns the line that best says why Envoy ended. Envoy repeats a fatal error of its start as one plain last
// line; an assertion ends in a critical line.
func (w *lastWords) reason() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endLine()
	for i := len(w.lines) - 1; i >= 0; i-- {
		level, message, isLog := parseLine(w.lines[i])
		switch {
		case !isLog && i == len(w.lines)-1:
			return w.lines[i]
		case level == "critical" || level == "error":
			return message
		}
	}
	return ""
}

// parseLine takes Envoy's default log format apart: "[date time][thread][level][logger] [source] message".
func parseLine(line string) (level, message string, ok bool) {
	rest, ok := strings.CutPrefix(line, "[")
	fields := strings.SplitN(rest, "][", 4)
	if !ok || len(fields) < 4 {
		return "", "", false
	}
	_, message, ok = strings.Cut(fields[3], "] ")
	if source, after, found := strings.Cut(message, "] "); found && strings.HasPrefix(source, "[") {
		message = after
	}
	return fields[2], message, ok
}
