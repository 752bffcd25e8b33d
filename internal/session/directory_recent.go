package session

import "sync"

// recentKeys remembers a value for about the last n keys put. It keeps two
// generations: when the young one is full the old one is dropped, so memory is
// bounded without a list to maintain, and a key in use is never forgotten.
type recentKeys[V any] struct {
	mu         sync.Mutex
	n          int
	young, old map[string]V
}

func newRecentKeys[V any](n int) *recentKeys[V] {
	return &recentKeys[V]{n: n, young: map[string]V{}}
}

// get returns the value of key and whether it is remembered.
func (r *recentKeys[V]) get(key string) (V, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.young[key]
	if ok {
		return v, true
	}
	if v, ok = r.old[key]; ok {
		r.store(key, v)
	}
	return v, ok
}

// put remembers v for key.
func (r *recentKeys[V]) put(key string, v V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.store(key, v)
}

func (r *recentKeys[V]) store(key string, v V) {
	if _, there := r.young[key]; !there && len(r.young) >= r.n/2 {
		r.old, r.young = r.young, make(map[string]V, r.n/2)
	}
	r.young[key] = v
}
