package transfer

import (
	"context"
	"errors"
	"fmt"

	"github.com/redoubt-go/redoubt/internal/rdb"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// names reads the names of the libraries in a reply to FUNCTION LIST. It reports false for an error: the server has no
// functions, or the user may not see them.
func names(reply any) (all []string, ok bool) {
	list, ok := reply.([]any)
	if !ok {
		return nil, false
	}
	for _, entry := range list {
		fields, _ := entry.([]any)
		for i := 0; i+1 < len(fields); i += 2 {
			if name, _ := fields[i+1].(string); fields[i] == "library_name" {
				all = append(all, name)
			}
		}
	}
	return all, true
}

// libraries implements [Source]. The libraries belong to no database, so a copy of one database leaves them out.
func (s *Server) libraries(ctx context.Context) ([]string, error) {
	if len(s.functions) == 0 || s.only != AnyDatabase {
		return nil, nil
	}
	payload, err := s.c.do(ctx, "FUNCTION", "DUMP")
	if err != nil {
		return nil, fmt.Errorf("FUNCTION DUMP: %w", err)
	}
	text, _ := payload.(string)
	all, err := rdb.ParseFunctions([]byte(text), rdb.Largest)
	if err != nil {
		return nil, fmt.Errorf("%s: FUNCTION DUMP: %w", s.c.name, err)
	}
	return all, nil
}

// has implements [Target].
func (s *Server) has() (libraries []string, able bool) { return s.functions, s.able }

// load implements [Target].
func (s *Server) load(ctx context.Context, libraries []string, replace bool) error {
	policy := "APPEND"
	if replace {
		policy = "REPLACE"
	}
	if _, err := s.c.do(ctx, "FUNCTION", "RESTORE", string(rdb.Functions(nil, libraries)), policy); err != nil {
		if refused, ok := errors.AsType[resp.Error](err); ok {
			return fmt.Errorf("%s refuses the libraries of functions: %w", s.c.name, refused)
		}
		return err
	}
	return nil
}

// libraries implements [Source]. The survey has read the whole file.
func (f *File) libraries(context.Context) ([]string, error) { return f.functions, nil }

// has implements [Target]. Redis 7.0 is the first that has libraries of functions.
func (f *NewFile) has() (libraries []string, able bool) { return nil, f.version >= rdb.Version }

// load implements [Target].
func (f *NewFile) load(_ context.Context, libraries []string, _ bool) error {
	for _, code := range libraries {
		if err := f.w.Library(code); err != nil {
			return err
		}
	}
	return nil
}
