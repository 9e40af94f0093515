package jobspec

import (
	"runtime"
	"sync"
)

// inParts calls f concurrently for parts of 0…n and returns when all are done. Small n
// makes a single part. A panic in f reaches the caller.
func inParts(n int, f func(from, to int)) {
	const least = 4096
	parts := min(n/least, runtime.GOMAXPROCS(0), 4)
	if parts < 2 {
		f(0, n)
		return
	}
	var wg sync.WaitGroup
	panics := make(chan any, parts)
	for i := range parts {
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					panics <- p
				}
			}()
			f(i*n/parts, (i+1)*n/parts)
		})
	}
	wg.Wait()
	select {
	case p := <-panics:
		panic(p)
	default:
	}
}
