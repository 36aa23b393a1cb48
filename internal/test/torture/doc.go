// Package torture drives all primitives at once, by many processes and through every door,
// while faults of a seeded schedule strike the servers, the network and the processes. Models
// judge what the processes saw.
//
//	make torture [DURATION=1h] [SEED=1] [ONLY=regexp] [STRIKES=0,3]
//
// A topology is a kind of deployment, with `redoubt serve` in front of it. A round starts
// workers, each a process of its own: some use the library, some send commands to `redoubt
// serve`, some run the command line. A schedule, drawn from the seed, says which fault strikes
// what, when and for how long. When all faults are over, each worker goes on until each
// primitive has worked once more, and then the round is judged by its history alone.
//
// A round that fails prints its seed and its schedule. The run then repeats the round with
// parts of the schedule left out, and prints the smallest schedule that still fails.
//
// All of the package is in test files, so that no program builds it. docs/reliability.md says
// what is run, and what is promised.
package torture
