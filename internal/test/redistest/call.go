package redistest

import (
	"context"
	"net"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// callTimeout bounds one command of this package on a server.
const callTimeout = 2 * time.Second

// call runs one command on its own connection and returns its reply, a
// [resp.Error] among them.
func (p *process) call(args ...string) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", p.socket)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(callTimeout)); err != nil {
		return nil, err
	}
	if _, err := conn.Write(resp.AppendCommand(nil, args...)); err != nil {
		return nil, err
	}
	var (
		scan resp.ReplyScanner
		buf  []byte
		part = make([]byte, 4096)
	)
	for {
		n, err := conn.Read(part)
		if err != nil {
			return nil, err
		}
		buf = append(buf, part[:n]...)
		if end, err := scan.Next(buf); err != nil {
			return nil, err
		} else if end > 0 {
			v, _, err := resp.Parse(buf)
			return v, err
		}
	}
}
