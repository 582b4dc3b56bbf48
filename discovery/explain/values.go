package explain

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Values returns the question as ParseValues reads it.
func (q Question) Values() url.Values {
	out := url.Values{"from": {q.From}, "to": {q.To}, "address": {q.Address}, "method": {q.Method}, "path": {q.Path}, "header": q.Header}
	for name, set := range map[string]bool{"tcp": q.TCP, "tls": q.TLS} {
		if set {
			out.Set(name, "true")
		}
	}
	for name, said := range map[string]map[string]string{"meta": q.Metadata, "server-meta": q.ServerMetadata} {
		for key, value := range said {
			out.Add(name, key+"="+value)
		}
	}
	return out
}

// ParseValues reads a question by the names of the flags of the command explain. An error names the value that is wrong.
func ParseValues(v url.Values) (Question, error) {
	known := []string{"from", "to", "address", "method", "path", "header", "tcp", "tls", "meta", "server-meta"}
	for name := range v {
		if !slices.Contains(known, name) {
			return Question{}, fmt.Errorf("%.100q: want one of %s", name, strings.Join(known, ", "))
		}
	}
	q := Question{
		From: v.Get("from"), To: v.Get("to"), Address: v.Get("address"), Method: v.Get("method"), Path: v.Get("path"), Header: v["header"],
	}
	if q.From == "" || q.To == "" {
		return Question{}, fmt.Errorf("from or to is missing: want who sends, and the host")
	}
	var err error
	for name, into := range map[string]*bool{"tcp": &q.TCP, "tls": &q.TLS} {
		if text := v.Get(name); text != "" {
			if *into, err = strconv.ParseBool(text); err != nil {
				return Question{}, fmt.Errorf("%s %.100q: want true or false", name, text)
			}
		}
	}
	if q.Metadata, err = pairs("meta", v["meta"]); err != nil {
		return Question{}, err
	}
	q.ServerMetadata, err = pairs("server-meta", v["server-meta"])
	return q, err
}

func pairs(name string, all []string) (map[string]string, error) {
	var out map[string]string
	for _, text := range all {
		key, value, found := strings.Cut(text, "=")
		if !found || key == "" {
			return nil, fmt.Errorf("%s %.100q: want KEY=VALUE", name, text)
		}
		if out == nil {
			out = map[string]string{}
		}
		out[key] = value
	}
	return out, nil
}
