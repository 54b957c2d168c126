package executor

import "sync"

// staff runs functions, each in a goroutine that may have run others before: what a call
// goes through is deep, and a new goroutine would have its stack copied on the way down.
type staff struct {
	work sync.WaitGroup
	next chan func() // to somebody idle
	idle chan struct{}
	over chan struct{}
	once sync.Once
}

// idleMax is how many goroutines stay without work.
const idleMax = 64

func newStaff() *staff {
	return &staff{next: make(chan func()), idle: make(chan struct{}, idleMax), over: make(chan struct{})}
}

// do runs f soon.
func (s *staff) do(f func()) {
	s.work.Add(1)
	select {
	case s.next <- f:
	default:
		go s.serve(f)
	}
}

func (s *staff) serve(f func()) {
	for {
		f()
		s.work.Done()
		select {
		case s.idle <- struct{}{}:
		default:
			return // enough are idle
		}
		select {
		case f = <-s.next:
			<-s.idle
		case <-s.over:
			<-s.idle
			return
		}
	}
}

// end waits until all that was asked for has run, and then has the idle leave.
func (s *staff) end() {
	s.work.Wait()
	s.once.Do(func() { close(s.over) })
}
