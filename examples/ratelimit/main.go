// Ratelimit is an HTTP server that takes at most 5 replies in any 10 seconds from each user, among all
// servers that use one Redis.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redoubt-go/redoubt"
	_ "github.com/redoubt-go/redoubt/engine"  // opens embedded:
	_ "github.com/redoubt-go/redoubt/goredis" // opens redis:// and the other URLs
	"github.com/redoubt-go/redoubt/ratelimit"
	"github.com/redoubt-go/redoubt/ratelimit/httplimit"
)

func main() {
	url := flag.String("url", cmp.Or(os.Getenv("REDOUBT_URL"), "embedded:"), "`URL` of the server that counts; $REDOUBT_URL sets the default")
	addr := flag.String("addr", "127.0.0.1:8080", "`address` to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *url, *addr); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url, addr string) error {
	client, err := redoubt.Open(ctx, url, redoubt.Options{Prefix: "example-ratelimit"})
	if err != nil {
		return err
	}
	defer client.Close()
	handler, err := newHandler(client)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	fmt.Printf("listening on http://%s; try: curl -i -u ann: -X POST http://%[1]s/replies\n", listener.Addr())

	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	// Requests that have begun get their answers.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return server.Shutdown(grace)
}

func newHandler(client *redoubt.Client) (http.Handler, error) {
	// A Window takes exactly 5 in any 10 seconds. A Limiter, made by ratelimit.New, would take 5 at once
	// and then one every 2 seconds.
	replies, err := ratelimit.NewWindow(client, ratelimit.WindowOptions{
		Limit: ratelimit.Limit{Rate: 5, Period: 10 * time.Second},
	})
	if err != nil {
		return nil, err
	}
	limited, err := httplimit.New(httplimit.Options{
		Policies: []httplimit.Policy{{Name: "replies", Limiter: replies, Key: user}},
		// While the server doesn't answer, replies pass: OnFailure defaults to FailOpen.
		OnError: func(_ *http.Request, policy string, err error) {
			log.Printf("limit %s is not checked: %v", policy, err)
		},
	})
	if err != nil {
		return nil, err
	}
	reply := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated) // a forum would store the reply
	})
	mux := http.NewServeMux()
	mux.Handle("POST /replies", signedIn(limited.Wrap(reply)))
	return mux, nil
}

// user returns the name of the user who sends r. signedIn has checked it.
func user(r *http.Request) string {
	name, _, _ := r.BasicAuth()
	return name
}

// signedIn refuses requests without a user. It runs before the limit: a client that could invent names
// would get a new limit with each. A real one checks the password too.
func signedIn(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user(r) == "" {
			w.Header().Set("WWW-Authenticate", `Basic realm="replies"`)
			http.Error(w, "sign in first", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
