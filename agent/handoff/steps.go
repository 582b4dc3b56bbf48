package handoff

// Step is a step of an upgrade, at which tests strike.
type Step string

// The steps, in their order. The first ones are the old image's, from Started on they are those of the image that takes over.
const (
	Fetched  Step = "fetched"  // the new image has said that it can
	Left     Step = "left"     // the supervisor has left Envoy
	Shut     Step = "shut"     // the ports accept no more
	Packed   Step = "packed"   // the state is put together
	Held     Step = "held"     // signals are for the next image
	Sealed   Step = "sealed"   // the state is written
	Started  Step = "started"  // the image runs
	Received Step = "received" // the state is read
	Decoded  Step = "decoded"  // and understood, sockets are taken
	Slotted  Step = "slotted"  // the slot is taken
	Adopting Step = "adopting" // all is ready to take Envoy over
	Accepted Step = "accepted" // there is no way back any more
	Served   Step = "served"   // the ports are served
	Back     Step = "back"     // the image cannot, and returns to the one before
)
