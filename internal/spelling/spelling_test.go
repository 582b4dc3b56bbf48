package spelling

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	known := []string{"statusPort", "statsdUdpAddress", "trust-domain", "ip", "id"}
	for name, want := range map[string]string{
		"statusPrt":                        "statusPort",
		"StatusPort":                       "statusPort",
		"STATUS_PORT":                      "statusPort",
		"trustDomain":                      "trust-domain",
		"statsAddress":                     "statsdUdpAddress",
		"ipp":                              "ip",
		"binaryPath":                       "",
		"":                                 "",
		strings.Repeat("statusPort", 1000): "",
	} {
		if got := Nearest(name, known); got != want {
			t.Errorf("Nearest(%.20q): got %q, want %q", name, got, want)
		}
	}
}
