package model

import (
	"slices"
	"strings"
	"testing"
)

// A listener that an Envoy does not open is a note about the proxy, with the address, the cause and a remedy; other refusals are none.
func TestListenersThatAreNotOpened(t *testing.T) {
	for text, want := range map[string]string{
		"Error adding/updating listener(s) http_proxy: cannot bind '127.0.0.1:15080': Address already in use\n": "is not opened by this connected Envoy at 127.0.0.1:15080: another process holds the port",
		"Error adding/updating listener(s) a: cannot bind '[::1]:80': Permission denied":                        "at [::1]:80: its user may not open ports below 1024",
		"cannot bind '192.0.2.1:80': Cannot assign requested address":                                           "at 192.0.2.1:80: its host does not have this address",
		"cannot bind '/run/x': No such file or directory":                                                       "at /run/x: No such file or directory",
		"Error adding/updating listener(s) a: no such filter":                                                   "",
		"cannot bind '10.0.0.1": "",
	} {
		notes := New(slices.Values([]Group{})).Notes(Proxy{Namespace: "shop", Name: "web", Unbound: []Unbound{{"a", text}}})
		switch {
		case want == "" && len(notes) > 0:
			t.Errorf("%q: %v", text, notes)
		case want == "":
		case len(notes) != 1 || notes[0].Code != CannotBind || notes[0].Path != "listener a" || !strings.Contains(notes[0].Message, want) || notes[0].Meta.Kind != "Proxy":
			t.Errorf("%q: %+v, want %q", text, notes, want)
		}
	}
}
