package consul

// queue holds the names of services to read, each once, in the order in which they were added. While a service is being
// read, next does not return it: an older answer must not replace a newer one.
type queue struct {
	order   []string
	waiting names
	reading names
}

func newQueue() *queue { return &queue{waiting: names{}, reading: names{}} }

func (q *queue) add(all names) {
	for name := range all {
		if !q.waiting[name] {
			q.waiting[name] = true
			q.order = append(q.order, name)
		}
	}
}

// drop removes services that no longer exist.
func (q *queue) drop(all names) {
	for name := range all {
		delete(q.waiting, name)
	}
}

// next returns a service that can be read now.
func (q *queue) next() (string, bool) {
	kept := q.order[:0]
	found, at := "", false
	for i, name := range q.order {
		switch {
		case !q.waiting[name]: // dropped, or begun
			continue
		case !q.reading[name]:
			found, at = name, true
			kept = append(kept, q.order[i:]...)
		default:
			kept = append(kept, name)
			continue
		}
		break
	}
	q.order = kept
	return found, at
}

// begin records that reading a service has begun, end that it has ended.
func (q *queue) begin(name string) {
	delete(q.waiting, name)
	q.reading[name] = true
}

func (q *queue) end(name string) { delete(q.reading, name) }

func (q *queue) len() int { return len(q.waiting) + len(q.reading) }

func (q *queue) empty() bool { return q.len() == 0 }
