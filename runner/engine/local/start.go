package local

// start starts a goroutine that Close waits for.
func (l *Local) start(f func()) {
	l.work.Add(1)
	plain(l.Go)(func() {
		defer l.work.Done()
		f()
	})
}

// plain returns start or, if that is nil, a plain go statement.
func plain(start func(func())) func(func()) {
	if start == nil {
		return func(f func()) { go f() }
	}
	return start
}
