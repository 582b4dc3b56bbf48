package pilotlight_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// road are the pages of README's line, in its order, then README's own place before them.
func road(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, line, found := strings.Cut(string(text), "\nFrom page to page: ")
	line, _, _ = strings.Cut(line, "\n\n")
	var pages []string
	for _, m := range link.FindAllStringSubmatch(line, -1) {
		pages = append(pages, m[1])
	}
	if !found || len(pages) < 2 {
		t.Fatalf("README has no line \"From page to page: \" with pages: %q", pages)
	}
	return pages
}

var link = regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`)

// Each page of README's road ends with a link to the next, and all pages of docs are on it or in the reference, where it ends.
func TestTheRoad(t *testing.T) {
	pages := road(t)
	for i, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(strings.TrimSpace(string(text)), "\n\n")
		last := parts[len(parts)-1]
		next := link.FindStringSubmatch(last)
		switch {
		case i == len(pages)-1:
			if strings.Contains(last, "Next: ") {
				t.Errorf("%s ends with %q, and is the road's last page", page, last)
			}
		case !strings.HasPrefix(last, "Next: [") || next == nil || filepath.Join(filepath.Dir(page), next[1]) != pages[i+1]:
			t.Errorf("%s ends with %q, want a link to %s after \"Next: \"", page, last, pages[i+1])
		}
	}
	reference, err := os.ReadFile(pages[len(pages)-1])
	if err != nil {
		t.Fatal(err)
	}
	for page := range shown(t) {
		if page != "README.md" && !slices.Contains(pages, page) && !strings.Contains(string(reference), "]("+strings.TrimPrefix(page, "docs/")+")") {
			t.Errorf("%s is neither on README's road nor in %s", page, pages[len(pages)-1])
		}
	}
}

// madeByTheAgent are keys of a node's metadata that no variable gives: the agent makes them.
var madeByTheAgent = []string{"INSTANCE_IPS"}

// metadataKey is a key of a node's metadata that code reads.
var metadataKey = regexp.MustCompile(`(?:\b(?:text|labels|list|mode|port|setting)\(|\bExtra\[|\bGetFields\(\)\[)"([A-Z][A-Z_]*)"`)

// Each key of a node's metadata that the programs read is in the reference, as ISTIO_META_KEY, ISTIO_METAJSON_KEY or a variable of that name.
func TestReferenceHasEveryMetadataKey(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "git", "grep", "-hE", `"[A-Z][A-Z_]*"`, "--", "agent/*.go", "node/*.go", "discovery/*.go", ":!*_test.go").Output()
	if err != nil {
		t.Fatalf("git grep: %v", err)
	}
	page, err := os.ReadFile("docs/cli/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, m := range metadataKey.FindAllStringSubmatch(string(out), -1) {
		keys = append(keys, m[1])
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	for _, key := range []string{"NAMESPACE", "INTERCEPTION_MODE", "NETWORK", "GENERATOR", "DNS_CAPTURE", "WORKLOAD_NAME"} {
		if !slices.Contains(keys, key) {
			t.Errorf("the code is not seen to read %s: is the pattern right? It sees %q", key, keys)
		}
	}
	for _, key := range keys {
		named := regexp.MustCompile(fmt.Sprintf("`(ISTIO_META_|ISTIO_METAJSON_)?%s`", key))
		if !slices.Contains(madeByTheAgent, key) && !named.Match(page) {
			t.Errorf("docs/cli/settings.md has neither ISTIO_META_%s nor %s, which the code reads", key, key)
		}
	}
}

// keysByName are the files that take a key of a node's metadata from a variable, and what that is. Elsewhere a key is written where it is read, so that the test above sees it.
var keysByName = map[string]string{
	"agent/identity/istio.go":             "keys that the agent makes as Istio's does",
	"agent/proxy/istio.go":                "text, whose callers name the key",
	"discovery/xds/proxy.go":              "text, whose callers name the key",
	"discovery/xds/mtls.go":               "metadata of a cluster, not a node's",
	"discovery/ads/certificateservice.go": "metadata of a request for a certificate, not a node's",
	"discovery/ca/kubernetes/judge.go":    "what the API server says of a token, not a node's",
}

// No key of a node's metadata is read in a way that the reference's test does not see.
func TestMetadataIsReadWhereItsKeyIsWritten(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "git", "grep", "-nE", `(\bExtra|GetFields\(\))\[[^"]`, "--", "agent/*.go", "node/*.go", "discovery/*.go", ":!*_test.go").Output()
	if err != nil {
		t.Fatalf("git grep: %v", err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		path, _, _ := strings.Cut(line, ":")
		if seen[path] = true; keysByName[path] == "" {
			t.Errorf("a key of metadata is in a variable, so that docs/cli/settings.md may lack it: write it where it is read: %s", line)
		}
	}
	for path := range keysByName {
		if !seen[path] {
			t.Errorf("%s takes no key from a variable: it is no exception", path)
		}
	}
}
