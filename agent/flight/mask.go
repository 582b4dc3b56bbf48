package flight

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

const masked = "[masked]"

// Mask returns a bootstrap, which must be JSON, without values that look like secrets: strings with the name of a
// secret, the inline data below such a name, values of authentication headers, and keys, tokens and passwords by their
// form. File names and the structure stay.
func Mask(bootstrap []byte) ([]byte, error) {
	var tree any
	decoder := json.NewDecoder(bytes.NewReader(bootstrap))
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		return nil, fmt.Errorf("parse bootstrap: %w", err)
	}
	out, err := json.Marshal(maskTree(tree, false))
	if err != nil {
		return nil, fmt.Errorf("write masked bootstrap: %w", err)
	}
	return out, nil
}

// The fields of Envoy's DataSource and HeaderValue that hold the value itself, in both spellings of JSON.
var (
	inlineData  = []string{"inline_string", "inlineString", "inline_bytes", "inlineBytes"}
	headerValue = []string{"value", "raw_value", "rawValue"}
)

// maskTree masks the values of a tree. secret is true below the name of a secret: there strings and inline data are
// masked.
func maskTree(tree any, secret bool) any {
	switch node := tree.(type) {
	case string:
		if secret && node != "" {
			return masked
		}
		return MaskText(node)
	case []any:
		for i, item := range node {
			node[i] = maskTree(item, secret)
		}
	case map[string]any:
		header := isSecret(nameOf(node))
		for name, value := range node {
			_, isText := value.(string)
			switch {
			case !isText:
				node[name] = maskTree(value, secret || isSecret(name))
			case isSecret(name),
				secret && slices.Contains(inlineData, name),
				header && slices.Contains(headerValue, name):
				node[name] = masked
			default:
				node[name] = maskTree(value, false)
			}
		}
	}
	return tree
}

// nameOf returns the name of an object that is a pair of name and value, such as HeaderValue.
func nameOf(node map[string]any) string {
	for _, key := range []string{"key", "name"} {
		if name, ok := node[key].(string); ok {
			return name
		}
	}
	return ""
}

// isSecret reports whether a name is that of a secret, in any spelling: private_key, privateKey, X-Api-Key.
func isSecret(name string) bool {
	name = strings.NewReplacer("_", "", "-", "", ".", "").Replace(strings.ToLower(name))
	for _, word := range []string{
		"privatekey", "password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "jsonkey",
		"credential", "authorization", "cookie", "ticketkeys",
	} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// look is the form of a secret, and its replacement.
type look struct {
	pattern *regexp.Regexp
	left    string
}

// looks is compiled at the first use, so that a start does not pay for it.
var looks = sync.OnceValue(func() []look {
	return []look{
		{regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)`), masked},
		{regexp.MustCompile(`(?i)\b(bearer|basic) +[A-Za-z0-9+/=._~-]{6,}`), "$1 " + masked},
		{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*(\.[A-Za-z0-9_-]*)?`), masked}, // a JSON web token
		{regexp.MustCompile(`://[^/@\s"']+:[^/@\s"']*@`), "://" + masked + "@"},
		// A header in the form of Envoy's debug log.
		{
			regexp.MustCompile(`(?i)('(?:authorization|proxy-authorization|cookie|set-cookie|x-api-key)', )'[^'\n]*'`),
			"$1'" + masked + "'",
		},
	}
})

// MaskText masks text that looks like a secret in a line of a log, or in any other text.
func MaskText(text string) string {
	for _, look := range looks() {
		text = look.pattern.ReplaceAllString(text, look.left)
	}
	return text
}
