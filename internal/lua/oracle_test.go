package lua

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// An oracle is a real redis-server, started for the test.
type oracle struct {
	t    testing.TB
	cmd  *exec.Cmd
	conn net.Conn
	r    *bufio.Reader
}

// newOracle starts redis-server 7.0.
func newOracle(t testing.TB) *oracle {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal("redis-server is not installed: make test installs it, or says how")
	}
	out, err := exec.Command(path, "--version").Output()
	if err != nil || !bytes.Contains(out, []byte("v=7.0.")) {
		// Other versions have other texts. The recorded replies of 7.0 are
		// checked all the same.
		t.Skipf("redis-server is not 7.0: %s", out)
	}
	o := &oracle{t: t}
	o.start(path)
	t.Cleanup(o.stop)
	return o
}

func (o *oracle) start(path string) {
	dir := o.t.TempDir()
	socket := filepath.Join(dir, "s") // no other program can have it, as it could have a port
	o.cmd = exec.Command(path, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", dir)
	if err := o.cmd.Start(); err != nil {
		o.t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		var err error
		if o.conn, err = net.Dial("unix", socket); err == nil {
			o.r = bufio.NewReader(o.conn)
			return
		}
		if time.Now().After(deadline) {
			o.t.Fatal(err)
		}
	}
}

func (o *oracle) stop() {
	o.conn.Close()
	o.cmd.Process.Kill() //nolint:errcheck // it may have died of a script
	o.cmd.Wait()         //nolint:errcheck // as above
}

// restart replaces a server that died of a script.
func (o *oracle) restart() {
	path := o.cmd.Path
	o.stop()
	o.start(path)
}

// do sends a command and returns the raw reply.
func (o *oracle) do(args ...string) (string, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	o.conn.SetDeadline(time.Now().Add(20 * time.Second)) //nolint:errcheck // a failure shows below
	if _, err := o.conn.Write(b.Bytes()); err != nil {
		return "", err
	}
	var out bytes.Buffer
	err := readReply(o.r, &out)
	return out.String(), err
}

func readReply(r *bufio.Reader, out *bytes.Buffer) error {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return err
	}
	out.Write(line)
	n, _ := strconv.Atoi(string(bytes.TrimSpace(line[1:])))
	switch line[0] {
	case '$', '=', '!':
		if n >= 0 {
			if _, err := io.CopyN(out, r, int64(n)+2); err != nil {
				return err
			}
		}
	case '*', '~', '>':
		for range n {
			if err := readReply(r, out); err != nil {
				return err
			}
		}
	case '%':
		for range 2 * n {
			if err := readReply(r, out); err != nil {
				return err
			}
		}
	}
	return nil
}

// eval runs a script on the server, on an empty database.
func (o *oracle) eval(src string, keys, args []string) (string, error) {
	if _, err := o.do("FLUSHALL"); err != nil {
		return "", err
	}
	cmd := append([]string{"EVAL", src, strconv.Itoa(len(keys))}, keys...)
	return o.do(append(cmd, args...)...)
}
