module github.com/redoubt-go/redoubt/rueidisconn

go 1.26.0

replace github.com/redoubt-go/redoubt => ../

require (
	github.com/redis/rueidis v1.0.79
	github.com/redoubt-go/redoubt v0.1.0
	go.uber.org/goleak v1.3.0
)

require golang.org/x/sys v0.48.0 // indirect
