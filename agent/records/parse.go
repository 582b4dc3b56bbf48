package records

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/agent/flight"
	"github.com/pilotlight/pilotlight/agent/frame"
	"github.com/pilotlight/pilotlight/agent/why"
)

// longest is how many bytes of a text are kept; longestPath of a path, and longestReason of a reason: the words of OpenSSL come last.
const (
	longest       = 100
	longestPath   = 200
	longestReason = 300
)

// lastSecond is the last one of the year 9999: a later time is none in JSON, and one record would keep all from being told.
const lastSecond = 253402300799

// flags are Envoy's response flags by their field in ResponseFlags (envoy/data/accesslog/v3).
var flags = []string{
	1: "LH", 2: "UH", 3: "UT", 4: "LR", 5: "UR", 6: "UF", 7: "UC", 8: "UO", 9: "NR", 10: "DI", 11: "FI", 12: "RL", 13: "UAEX", 14: "RLSE", 15: "DC", 16: "URX",
	17: "SI", 18: "IH", 19: "DPE", 20: "UMSDR", 21: "RFCF", 22: "NFCF", 23: "DT", 24: "UPE", 25: "NC", 26: "OM", 27: "DF", 28: "DR",
}

var methods = []string{1: "GET", 2: "HEAD", 3: "POST", 4: "PUT", 5: "DELETE", 6: "CONNECT", 7: "OPTIONS", 8: "TRACE", 9: "PATCH"}

// parse reads a StreamAccessLogsMessage (envoy/service/accesslog/v3): the records of requests and of connections that failed.
func parse(message []byte) (out []why.Request, err error) {
	entries := func(http bool) func(int, []byte) error {
		return func(number int, entry []byte) error {
			if number != 1 {
				return nil
			}
			r, err := parseEntry(entry, http)
			if err == nil && r.Failed() {
				out = append(out, r.Tell())
			}
			return err
		}
	}
	err = frame.Fields(message, func(number int, value []byte) error {
		switch number {
		case 2:
			return frame.Fields(value, entries(true))
		case 3:
			return frame.Fields(value, entries(false))
		}
		return nil
	})
	return out, err
}

// parseEntry reads an HTTPAccessLogEntry or a TCPAccessLogEntry.
func parseEntry(entry []byte, http bool) (r why.Request, err error) {
	err = frame.Fields(entry, func(number int, value []byte) error {
		switch {
		case number == 1:
			return takeCommon(&r, value)
		case number == 3 && http:
			return takeRequest(&r, value)
		case number == 4 && http:
			return takeResponse(&r, value)
		}
		return nil
	})
	return r, err
}

// takeCommon reads an AccessLogCommon.
func takeCommon(r *why.Request, common []byte) error {
	return frame.All(common, func(number int, value []byte, n uint64) (err error) {
		switch number {
		case 2:
			r.Client, err = address(value)
		case 5:
			var seconds, nanos uint64
			seconds, nanos, err = pair(value)
			r.At = time.Unix(int64(min(seconds, lastSecond)), int64(min(nanos, 1e9-1))).UTC()
		case 13:
			r.Endpoint, err = address(value)
		case 15:
			r.Cluster = cmp.Or(r.Cluster, bounded(value, 2*longest))
		case 16:
			r.Flags, err = flagsOf(value)
		case 18, 28:
			if reason := bounded(value, longestReason); reason != "" {
				r.Reason = flight.MaskText(reason)
			}
		case 19:
			r.Route = bounded(value, longest)
		case 22:
			err = takeTag(r, value)
		case 23:
			var seconds, nanos uint64
			seconds, nanos, err = pair(value)
			r.Took = float64(seconds)*1000 + float64(nanos/1000)/1000
		case 24:
			r.Tries = int(min(n, 1<<20))
		}
		return err
	})
}

// takeTag reads a custom tag: the cluster of a request for which no endpoint was chosen, or the address of a listener, in its own log.
func takeTag(r *why.Request, tag []byte) error {
	var key, value string
	err := frame.Fields(tag, func(number int, text []byte) error {
		switch number {
		case 1:
			key = string(text[:min(len(text), longest)])
		case 2:
			value = bounded(text, 2*longest)
		}
		return nil
	})
	switch {
	case value == "" || value == "-":
	case key == "cluster":
		r.Cluster = value
	case key == "listener":
		r.Listener = value
	}
	return err
}

// takeRequest reads an HTTPRequestProperties.
func takeRequest(r *why.Request, request []byte) error {
	return frame.All(request, func(number int, value []byte, n uint64) error {
		switch number {
		case 1:
			if n < uint64(len(methods)) {
				r.Method = methods[n]
			}
		case 3:
			r.Authority = bounded(value, longest)
		case 5:
			if r.Path == "" {
				r.Path = pathOf(value)
			}
		case 10:
			r.Path = pathOf(value) // before a rewrite
		}
		return nil
	})
}

// takeResponse reads an HTTPResponseProperties.
func takeResponse(r *why.Request, response []byte) error {
	return frame.Fields(response, func(number int, value []byte) error {
		switch number {
		case 1:
			code, _, err := pair(value)
			r.Code = int(min(code, 999))
			return err
		case 6:
			r.Details = bounded(value, longest)
		}
		return nil
	})
}

func flagsOf(message []byte) (out []string, err error) {
	err = frame.All(message, func(number int, value []byte, n uint64) error {
		if number < len(flags) && flags[number] != "" && (value != nil || n != 0) && !slices.Contains(out, flags[number]) {
			out = append(out, flags[number])
		}
		return nil
	})
	return out, err
}

// pair reads the first two numbers of a Timestamp, a Duration or a wrapped number.
func pair(message []byte) (first, second uint64, err error) {
	err = frame.All(message, func(number int, _ []byte, n uint64) error {
		switch number {
		case 1:
			first = n
		case 2:
			second = n
		}
		return nil
	})
	return first, second, err
}

// address reads an Address: "10.0.0.7:8080", or the path of a Unix socket.
func address(message []byte) (out string, err error) {
	err = frame.Fields(message, func(kind int, value []byte) error {
		host, port := "", uint64(0)
		err := frame.All(value, func(number int, text []byte, n uint64) error {
			switch {
			case kind == 1 && number == 2:
				host = bounded(text, longest)
			case kind == 1 && number == 3:
				port = n
			case kind == 2 && number == 1:
				out = bounded(text, longest)
			}
			return nil
		})
		if kind == 1 {
			if strings.Contains(host, ":") {
				host = "[" + host + "]"
			}
			out = host + ":" + strconv.FormatUint(port, 10)
		}
		return err
	})
	return out, err
}

// pathOf keeps the path, and of its query the names: values may be secrets.
func pathOf(value []byte) string {
	path, query, asked := strings.Cut(bounded(value, longestPath), "?")
	path = flight.MaskText(path)
	if !asked {
		return path
	}
	var names []string
	for _, part := range strings.Split(query, "&") {
		name, _, valued := strings.Cut(part, "=")
		if !valued {
			name = "" // it may be a secret by itself
		}
		names = append(names, name+"=…")
	}
	return path + "?" + strings.Join(names, "&")
}

// bounded returns a text of at most that many bytes; it is its own copy, so that the message can go.
func bounded(value []byte, most int) string {
	text := string(value[:min(len(value), most)])
	if len(value) > most {
		text = strings.ToValidUTF8(text, "") + "…"
	}
	return text
}
