// Package bounded limits what is read from a peer: a server that is broken, or hostile, sends without an end.
//
//	peer ─▶ Reader ─▶ decoder        left bytes > 0: passed on     Renew: the limit counts from here again
//	                                 left = 0: the end, or Fault
//
// A content of exactly as many bytes as are allowed is complete. A longer one is an error, not a shorter content as with
// io.LimitReader: half of an answer must not be taken for all of it. The Reader holds no byte itself, so a decoder that
// keeps little of a long content needs little memory, and it does not limit the time: a silent peer is the caller's to
// end.
package bounded
