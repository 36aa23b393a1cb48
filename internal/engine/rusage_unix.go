//go:build unix

package engine

import (
	"fmt"
	"strings"
	"syscall"
)

// infoCPU writes the processor time of the process. It has no children.
func (e *Engine) infoCPU(_ *call, b *strings.Builder) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return
	}
	fmt.Fprintf(b, "used_cpu_sys:%d.%06d\r\nused_cpu_user:%d.%06d\r\nused_cpu_sys_children:0.000000\r\nused_cpu_user_children:0.000000\r\n",
		u.Stime.Sec, u.Stime.Usec, u.Utime.Sec, u.Utime.Usec)
}
