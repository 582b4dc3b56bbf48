// Package tracing sends traces of pushes to a collector, by OTLP over HTTP.
//
//	endpoint, or OpenTelemetry's variables ──▶ Target ──▶ Provider ──▶ spans in batches ──▶ collector
//	                                                                        └ away: a line in the log
//
// It begins no span, and reads the environment only by the function that it is given, but for what OpenTelemetry's library
// reads itself.
package tracing
