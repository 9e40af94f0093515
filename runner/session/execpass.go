package session

import (
	"context"
	"maps"
	"time"

	"gpurun/gpu"
	"gpurun/state/host"
)

// offerTimeout is how long an ended command holds its GPUs for the runs that it offers them to.
// After that, those runs notice free GPUs themselves.
const offerTimeout = time.Second

// offerGPUs offers the GPUs of an ended command to the next runs in line. It waits until they
// accept, because the offers end with this process.
func (e *Exec) offerGPUs() {
	if e.engine.Engine == nil {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), offerTimeout)
	defer stop()
	e.pool.AdvanceTo(host.Boottime())
	e.pool.Turns.SetWish(gpu.Wish{})
	e.readNeighbors(ctx)
	if !e.pool.Turns.HasRivals() {
		return
	}
	turns := map[gpu.UUID]gpu.Turn{}
	left := e.pool.Release(host.Boottime(), e.uniID)
	for i, id := range left {
		if turn, ok := e.pool.Turns.Next(host.Boottime(), id, left[i:]...); ok {
			turns[id] = turn
			e.pool.Offer(id, turn.Run)
			e.engine.Claims.Offer(e.uniID, id, turn.Run)
		}
	}
	for len(turns) > 0 && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-e.engine.Events():
		case <-time.After(offeredPause):
		}
		e.readNeighbors(ctx)
		maps.DeleteFunc(turns, e.pool.WasTaken)
	}
}

// readNeighbors reads the claims and wishes of other runs.
func (e *Exec) readNeighbors(ctx context.Context) {
	others, _ := e.engine.Claims.Others(ctx, nil)
	e.pool.ObserveOthers(host.Boottime(), others, e.engine.Claims.Wishes())
}
