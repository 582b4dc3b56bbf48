package tracing

import "testing"

// Traces are off unless a collector is named, and off by OpenTelemetry's own switches.
func TestTracingIsWanted(t *testing.T) {
	for name, test := range map[string]struct {
		environment map[string]string
		want        bool
	}{
		"nothing":             {nil, false},
		"a collector":         {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, true},
		"one of traces":       {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/t"}, true},
		"no exporter":         {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "none"}, false},
		"all of it off":       {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "true"}, false},
		"only a service name": {map[string]string{"OTEL_SERVICE_NAME": "d"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			traces := To("", func(key string) string { return test.environment[key] })
			provider, err := traces.Provider(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := provider != nil; got != test.want {
				t.Errorf("wanted: %t, want %t", got, test.want)
			}
			if provider != nil {
				if err := provider.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
