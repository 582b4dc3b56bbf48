package config

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Values of headers have an allow-list of commands: those of access logs that do not show the proxy itself.
func TestHeaderCommands(t *testing.T) {
	var want []string
	for _, name := range slices.Sorted(maps.Keys(commands())) {
		if name != "ENVIRONMENT" {
			want = append(want, name)
		}
	}
	if got := model.HeaderCommands(); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("headers may have %v, want %v", got, want)
	}
	for value, part := range map[string]string{
		"%PROTOCOL%": "", "%ENVIRONMENT(AWS_SECRET_ACCESS_KEY)%": "shows the proxy itself", "a %ENVIRONMENT(A):3% b": "shows the proxy itself",
		"%FILE_CONTENT(/etc/passwd)%": "not one of those that objects may have", "%SECRET(a)%": "not one of those that objects may have",
	} {
		if got := strings.Join(headerFormatted(value), "; "); part == "" != (got == "") || !strings.Contains(got, part) {
			t.Errorf("%s: %q, want a fault with %q", value, got, part)
		}
	}
	if faults := formatted("%ENVIRONMENT(POD_NAME)%"); len(faults) > 0 {
		t.Errorf("an access log: %v", faults)
	}
}
