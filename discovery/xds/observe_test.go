package xds

import (
	"testing"

	filelogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	"github.com/google/go-cmp/cmp"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Every line ends with a newline, also if its format does not; configured fields replace the default ones.
func TestAccessLogFormat(t *testing.T) {
	format := func(c *meshconfig.MeshConfig) (text string, fields map[string]any) {
		c.AccessLogFile = "/dev/stdout"
		var log filelogv3.FileAccessLog
		if err := accessLogs(model.Settings{Config: c})[0].GetTypedConfig().UnmarshalTo(&log); err != nil {
			t.Fatal(err)
		}
		return log.GetLogFormat().GetTextFormatSource().GetInlineString(), log.GetLogFormat().GetJsonFormat().AsMap()
	}
	for given, want := range map[string]string{"%PROTOCOL%": "%PROTOCOL%\n", "a\n": "a\n", "": logFormat} {
		if got, _ := format(&meshconfig.MeshConfig{AccessLogFormat: given}); got != want {
			t.Errorf("%q: the line is %q, want %q", given, got, want)
		}
	}
	for given, want := range map[string]map[string]any{`{"a": "%PROTOCOL%"}`: {"a": "%PROTOCOL%"}, "": logFields()} {
		_, got := format(&meshconfig.MeshConfig{AccessLogFormat: given, AccessLogEncoding: meshconfig.MeshConfig_JSON})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", given, diff)
		}
	}
}
