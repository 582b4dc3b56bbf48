// Package flight writes the record of a crash, a hang or a failed handover, for a later search for the cause.
//
//	new events of the supervisor ──▶ Recorder ──▶ Record, with the remains of the process
//	Record ──▶ Mask, cut ──▶ dir/20261121T182508.577000000Z-epoch3.json (0600) ──▶ the oldest but keep are removed
//
// A record holds no secret that Mask recognizes, and its size is bounded. The package does not watch anything: it receives the
// supervisor's events, and reads /proc and the control group when it is called.
package flight
