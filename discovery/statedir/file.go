package statedir

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// format is the version of the files. It changes when a value of the model gets another meaning, or one without a value is
// wrong: see TestFormat.
const format = "pilotlight state 1"

// maxFile is how many bytes a file has at most.
const maxFile = 256 << 20

// Of says what the groups of a source depend on, besides the source.
type Of struct {
	Domain  string `json:"Domain"`  // of the cluster's services
	Cluster string `json:"Cluster"` // its ID
	Scope   string `json:"Scope"`   // which part of the source is read, and what it may say
}

// header is the first line of a file.
type header struct {
	Format string    `json:"Format"`
	Source string    `json:"Source"`
	Of     Of        `json:"Of"`
	At     time.Time `json:"At"`
}

// end is the last line of a file. A file without it was not written whole.
type end struct {
	Groups int    `json:"Groups"`
	SHA256 string `json:"SHA256"` // of all bytes before this line
}

// errTooLong says that a file would have, or has, more than maxFile bytes.
var errTooLong = fmt.Errorf("has more than %d MiB", maxFile>>20)

// write writes a file of at most that many bytes.
func write(to io.Writer, h header, groups map[string]model.Group, most int64) (written int64, err error) {
	sum := sha256.New()
	put := func(line []byte) error {
		if written += int64(len(line)); written > most {
			return errTooLong
		}
		_, _ = sum.Write(line) // a hash takes everything
		_, err := to.Write(line)
		return err
	}
	line := func(value any) ([]byte, error) {
		text, err := json.Marshal(value)
		return append(text, '\n'), err
	}
	h.Format, h.At = format, h.At.UTC()
	text, err := line(h)
	if err == nil {
		err = put(text)
	}
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		if err != nil {
			return written, err
		}
		if text, err = encode(key, groups[key]); err == nil {
			err = put(text)
		}
	}
	if err != nil {
		return written, err
	}
	if text, err = line(end{len(groups), hex.EncodeToString(sum.Sum(nil))}); err != nil {
		return written, err
	}
	return written, put(text)
}

// read reads a file of at most that many bytes. Its error completes a sentence about the file: "is not whole".
func read(from io.Reader, most int64) (h header, groups map[string]model.Group, err error) {
	in := bufio.NewReader(io.LimitReader(from, most+1))
	sum, had := sha256.New(), int64(0)
	next := func() ([]byte, error) {
		line, err := in.ReadBytes('\n')
		switch had += int64(len(line)); {
		case had > most:
			return nil, errTooLong
		case errors.Is(err, io.EOF):
			return nil, errors.New("is not whole: it was not written to its end, or cut")
		}
		return line, err
	}
	line, err := next()
	if err != nil {
		return h, nil, err
	}
	if err := json.Unmarshal(line, &h); err != nil || h.Format != format {
		return h, nil, fmt.Errorf("is of format %.40q, want %q", h.Format, format)
	}
	groups = map[string]model.Group{}
	for {
		_, _ = sum.Write(line) // a hash takes everything
		if line, err = next(); err != nil {
			return h, nil, err
		}
		if strings.HasPrefix(string(line[:min(len(line), len(lastLine))]), lastLine) {
			break
		}
		key, group, err := decode(line)
		if err != nil {
			return h, nil, fmt.Errorf("cannot be read: %w", err)
		}
		groups[key] = group
	}
	var last end
	if err := json.Unmarshal(line, &last); err != nil {
		return h, nil, fmt.Errorf("cannot be read: its last line: %w", err)
	}
	if _, err := in.ReadByte(); err == nil {
		return h, nil, errors.New("goes on after its last line")
	}
	if found := hex.EncodeToString(sum.Sum(nil)); last.SHA256 != found || last.Groups != len(groups) {
		return h, nil, fmt.Errorf("is damaged: it has %d groups and the checksum %.12s, its last line says %d and %.12s", len(groups), found, last.Groups, last.SHA256)
	}
	return h, groups, nil
}

// lastLine is how the last line begins, and no other.
const lastLine = `{"Groups":`

// refuse returns why the groups of a file are not used; "" for no reason. Its age is measured at now: a file of the future is used,
// for a clock that was set back says nothing about it.
func (h header) refuse(want Of, oldest time.Duration, now time.Time) string {
	if why := h.unlike(h.Source, want); why != "" {
		return why
	}
	if age := now.Sub(h.At); age > oldest {
		return fmt.Sprintf("is %s old, want at most %s", age.Round(time.Second), oldest)
	}
	return ""
}

// unlike returns which part of what the groups depend on is another one; "" for none.
func (h header) unlike(source string, want Of) string {
	for _, part := range []struct{ what, is, want string }{
		{"source", h.Source, source},
		{"domain", h.Of.Domain, want.Domain},
		{"cluster", h.Of.Cluster, want.Cluster},
		{"settings", h.Of.Scope, want.Scope},
	} {
		if part.is != part.want {
			return fmt.Sprintf("is of %s %.200q, now it is %.200q", part.what, part.is, part.want)
		}
	}
	return ""
}

// fileOf returns the name of the file of a source, without its ending.
func fileOf(source string) string {
	sum := sha256.Sum256([]byte(source))
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, source[:min(len(source), 40)])
	return name + "-" + hex.EncodeToString(sum[:6])
}
