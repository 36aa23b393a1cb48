module github.com/redoubt-go/redoubt/ratelimit/connectlimit

go 1.26.0

replace github.com/redoubt-go/redoubt => ../../

require (
	connectrpc.com/connect v1.21.1
	github.com/redoubt-go/redoubt v0.1.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/redis/go-redis/v9 v9.23.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)
