package replay

import (
	"net"
	"syscall"
	"unsafe"
)

// unacked is how many written bytes the other side's kernel has not acknowledged.
func unacked(c *net.TCPConn) int {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	var n int32
	err = raw.Control(func(fd uintptr) {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCOUTQ, uintptr(unsafe.Pointer(&n))); errno != 0 {
			n = 0 // the connection is gone
		}
	})
	if err != nil {
		return 0
	}
	return int(n)
}
