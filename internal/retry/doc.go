// Package retry tries something again and again until it succeeds, with pauses that grow.
//
//	attempt ── error ──▶ failed(err, pause) ── pause: First, 2·First, 4·First … Last ──▶ attempt
//	   │                                                 ▲
//	   └── nil: the end                                  └── First again after an attempt that lasted Long
//
// It knows no attempt that is worth no other: an error that is final is the caller's to see. It does not log.
package retry
