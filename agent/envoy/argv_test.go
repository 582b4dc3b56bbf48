package envoy

import (
	"strings"
	"testing"
	"time"
)

func TestArgv(t *testing.T) {
	usual := Options{LogLevel: "warning", DrainTime: 45 * time.Second, ParentShutdown: time.Minute}
	all := usual
	all.Concurrency, all.ComponentLogLevel, all.Extra = 2, "upstream:debug", []string{"--skip-deprecated-logs"}
	for _, test := range []struct {
		name    string
		options Options
		want    string
	}{
		{"the usual", usual, "--config-path /c/envoy-rev0.json --disable-hot-restart --drain-time-s 45 --parent-shutdown-time-s 60 --log-level warning"},
		{"all", all, "--config-path /c/envoy-rev0.json --disable-hot-restart --drain-time-s 45 --parent-shutdown-time-s 60 --log-level warning " +
			"--component-log-level upstream:debug --concurrency 2 --skip-deprecated-logs"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := strings.Join(argv("/c/envoy-rev0.json", test.options), " "); got != test.want {
				t.Errorf("argv:\n got %s\nwant %s", got, test.want)
			}
		})
	}
}
