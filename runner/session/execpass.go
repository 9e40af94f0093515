package session

import (
	"context"
	"maps"
	"time"

	"gpurun/gpu"
	"gpurun/state/host"
)

// passFor is how long a command that has ended keeps GPUs for the runs that it offers them
// to. After that they find out about free GPUs anyway.
const passFor = time.Second

// pass deals the GPUs of a command that has ended, as any run does, and waits for the runs
// whose turn it is: the offers end with this process.
func (e *Exec) pass() {
	if e.engine.Engine == nil {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), passFor)
	defer stop()
	e.pool.Pass(host.Boottime())
	e.pool.Turns.Want(gpu.Wish{})
	e.hear(ctx)
	if !e.pool.Turns.Rivals() {
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
		e.hear(ctx)
		maps.DeleteFunc(turns, e.pool.Took)
	}
}

// hear learns what others claim and wish for now.
func (e *Exec) hear(ctx context.Context) {
	others, _ := e.engine.Claims.Others(ctx, nil)
	e.pool.Notice(host.Boottime(), others, e.engine.Claims.Wishes())
}
